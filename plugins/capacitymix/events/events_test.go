// SPDX-License-Identifier: Apache-2.0

package events

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/plugintest"
)

func TestInvalidAnnotationsOfPodsThatAreGoneHoldNoMemory(t *testing.T) {
	r := NewRecorder(func() events.EventRecorder { return &events.FakeRecorder{} })
	before := int64(builders.Heap())
	for i := range 1000 {
		pod := plugintest.Pod("web", i)
		r.InvalidAnnotations(pod, []governing.InvalidAnnotation{{Object: pod, Key: "k", Value: strings.Repeat("v", 250_000) + fmt.Sprint(i)}})
	}
	assert.Less(t, int64(builders.Heap())-before, int64(20<<20), "1,000 values of 250 kB")
	runtime.KeepAlive(r)
}

func TestEveryNoteOfAnEventIsShort(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	r := NewRecorder(func() events.EventRecorder { return recorder })
	pod, long := plugintest.Pod("web", 0), strings.Repeat("ä", 100_000)
	r.InvalidAnnotations(pod, []governing.InvalidAnnotation{{Object: pod, Key: "k", Value: long, Problem: "wrong"}})
	r.InvalidCapacityMix(plugintest.CapacityMix("web", 0, 0), errors.New(long))
	r.UngateFailed(pod, long)
	r.SpotUnavailableNotDeleted(pod, 0, "", long)
	require.Len(t, recorder.Events, 4)
	for range 4 {
		event := <-recorder.Events
		assert.Less(t, len(event), 1024+64, "with the type and the reason")
		assert.True(t, utf8.ValidString(event))
	}
}

func TestAProblemIsEmittedOncePerObjectAndValue(t *testing.T) {
	r := NewRecorder(nil)
	assert.True(t, r.first(problem{"a", "key", "value"}))
	assert.False(t, r.first(problem{"a", "key", "value"}))
	assert.True(t, r.first(problem{"b", "key", "value"}))
	assert.True(t, r.first(problem{"a", "key", "other"}))
	assert.True(t, r.first(problem{"a", "keyv", "alue"}))
	for i := range 2 * maxProblems {
		r.first(problem{types.UID(fmt.Sprint(i)), "", ""})
	}
	assert.Equal(t, maxProblems, r.emitted.Len())
}

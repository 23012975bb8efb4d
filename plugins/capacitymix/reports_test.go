// SPDX-License-Identifier: Apache-2.0

package capacitymix

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

	"berth.dev/berth/internal/mix/policy"
)

// heap is the size of the live heap.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func TestInvalidAnnotationsOfPodsThatAreGoneHoldNoMemory(t *testing.T) {
	r := newReports(func() events.EventRecorder { return &events.FakeRecorder{} })
	before := heap()
	for i := range 1000 {
		pod := testPod("web", i)
		r.invalidAnnotations(pod, []policy.InvalidAnnotation{{Object: pod, Key: "k", Value: strings.Repeat("v", 250_000) + fmt.Sprint(i)}})
	}
	assert.Less(t, heap()-before, int64(20<<20), "1,000 values of 250 kB")
	runtime.KeepAlive(r)
}

func TestEveryNoteOfAnEventIsShort(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	r := newReports(func() events.EventRecorder { return recorder })
	pod, long := testPod("web", 0), strings.Repeat("ä", 100_000)
	r.invalidAnnotations(pod, []policy.InvalidAnnotation{{Object: pod, Key: "k", Value: long, Problem: "wrong"}})
	r.invalidCapacityMix(capacityMix("web", 0, 0), errors.New(long))
	r.closedGate(pod, long)
	r.waitsOn(pod, 0, long)
	require.Len(t, recorder.Events, 4)
	for range 4 {
		event := <-recorder.Events
		assert.Less(t, len(event), 1024+64, "with the type and the reason")
		assert.True(t, utf8.ValidString(event))
	}
}

func TestAComplaintIsEmittedOncePerObjectAndValue(t *testing.T) {
	r := newReports(nil)
	assert.True(t, r.first(complaint{"a", "key", "value"}))
	assert.False(t, r.first(complaint{"a", "key", "value"}))
	assert.True(t, r.first(complaint{"b", "key", "value"}))
	assert.True(t, r.first(complaint{"a", "key", "other"}))
	assert.True(t, r.first(complaint{"a", "keyv", "alue"}))
	for i := range 2 * complaintsRemembered {
		r.first(complaint{types.UID(fmt.Sprint(i)), "", ""})
	}
	assert.Equal(t, complaintsRemembered, r.seen.Len())
}

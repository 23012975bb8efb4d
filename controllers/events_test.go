// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"berth.dev/berth/apis/v1alpha1"
)

func TestEventsAboutMovesAreRecordedApart(t *testing.T) {
	moves, rest := record.NewFakeRecorder(10), record.NewFakeRecorder(10)
	r := recorder{moves: moves, rest: rest}
	for _, reason := range []string{v1alpha1.EventReasonMoved, v1alpha1.EventReasonReleased, v1alpha1.EventReasonProvisioning, v1alpha1.EventReasonMoveFailed} {
		r.Eventf(&corev1.Pod{}, corev1.EventTypeNormal, reason, "pod %s", "a")
		assert.Equal(t, "Normal "+reason+" pod a", <-moves.Events)
	}
	r.Event(&corev1.Pod{}, corev1.EventTypeNormal, v1alpha1.EventReasonMoveBlocked, "100%")
	assert.Equal(t, "Normal MoveBlocked 100%", <-rest.Events)
	r.AnnotatedEventf(&corev1.Pod{}, nil, corev1.EventTypeNormal, v1alpha1.EventReasonMoveBlocked, "%s", "100%")
	assert.Contains(t, <-rest.Events, "Normal MoveBlocked 100%")
}

// A combined event has no annotations, and the console shows no move of it.
func TestAHundredMovesOfAWorkloadHaveEventsOfTheirOwn(t *testing.T) {
	c := record.NewEventCorrelatorWithOptions(moveCorrelation)
	for i := range movesApart - 1 {
		e := &corev1.Event{Reason: v1alpha1.EventReasonMoved, Message: fmt.Sprint("pod ", i), LastTimestamp: metav1.Now()}
		e.Name, e.Annotations = fmt.Sprint("web.", i), map[string]string{v1alpha1.MoveAnnotation: "{}"}
		r, err := c.EventCorrelate(e)
		require.NoError(t, err)
		require.False(t, r.Skip)
		require.Equal(t, e.Annotations, r.Event.Annotations, i)
	}
}

func TestNothingIsRecordedAboutWhatCannotExist(t *testing.T) {
	recorded := record.NewFakeRecorder(10)
	long := &corev1.ObjectReference{Name: strings.Repeat("a", maxName+1)}
	recorder{moves: recorded, rest: recorded}.AnnotatedEventf(long, nil, "Normal", v1alpha1.EventReasonMoved, "moved")
	assert.Empty(t, recorded.Events)
}

func TestWhatATenantWritesGetsIntoEventsInPart(t *testing.T) {
	recorded := record.NewFakeRecorder(10)
	hostile := strings.Repeat("é%s", 1<<17)
	b := recorder{moves: recorded, rest: recorded}
	b.Event(&corev1.Pod{}, "Warning", "R", hostile)
	b.Eventf(&corev1.Pod{}, "Warning", "R", "value %s", hostile)
	b.AnnotatedEventf(&corev1.Pod{}, nil, "Warning", "R", "value %s", hostile)
	require.Len(t, recorded.Events, 3)
	for range 3 {
		assert.LessOrEqual(t, len(<-recorded.Events), maxEvent+len("Warning R map[]"))
	}
}

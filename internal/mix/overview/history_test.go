// SPDX-License-Identifier: Apache-2.0

package overview_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
)

func TestRefusalsAreCountedByReason(t *testing.T) {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	event := func(reason, blocked, message string, ago time.Duration, count int32) overview.Entry {
		e := &corev1.Event{Reason: reason, Message: message, Count: count, LastTimestamp: metav1.NewTime(noon.Add(-ago))}
		e.FirstTimestamp = metav1.NewTime(noon.Add(-ago - time.Hour))
		e.Annotations = map[string]string{v1alpha1.BlockedReasonAnnotation: blocked}
		return overview.EntryOf(e)
	}
	h := overview.History{Entries: []overview.Entry{
		event(v1alpha1.EventReasonMoveBlocked, "Paused", "Paused: late", time.Minute, 1),
		event(v1alpha1.EventReasonMoveBlocked, "Paused", "Paused: early", 10*time.Minute, 3),
		event(v1alpha1.EventReasonMoveBlocked, "DisruptionBudget", "budget", 5*time.Minute, 1),
		event(v1alpha1.EventReasonMoveBlocked, "Invented", "by someone", 0, 1),
		event(v1alpha1.EventReasonMoved, "Paused", "moved", 0, 1),
	}}
	h.Sort()
	at := func(ago time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-ago)) }
	assert.Equal(t, []overview.Refusal{
		{Reason: "Paused", Count: 4, First: at(70 * time.Minute), Last: at(time.Minute), Message: "Paused: late"},
		{Reason: "DisruptionBudget", Count: 1, First: at(5 * time.Minute), Last: at(5 * time.Minute), Message: "budget"},
	}, h.Refusals)
}

// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func eventBy(component, reason string, changes ...func(*corev1.Event)) *corev1.Event {
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "uid"},
		Source:         corev1.EventSource{Component: component}, Reason: reason,
		LastTimestamp: metav1.NewTime(time.Unix(1_800_000_000, 0)),
	}
	for _, change := range changes {
		change(e)
	}
	return e
}

func TestEventsOfAutoscalersAreReports(t *testing.T) {
	for _, tc := range []struct {
		component, reason string
		want              Report
		autoscaler        string
	}{
		{"cluster-autoscaler", "NotTriggerScaleUp", NoNode, ClusterAutoscaler},
		{"cluster-autoscaler", "FailedScaleUp", LaunchFailed, ClusterAutoscaler},
		{"cluster-autoscaler", "TriggeredScaleUp", Launches, ClusterAutoscaler},
		{"karpenter", "FailedScheduling", NoNode, Karpenter},
		{"karpenter", "InsufficientCapacityError", LaunchFailed, Karpenter},
		{"karpenter", "Nominated", Launches, Karpenter},
		{"eks-auto-mode/compute", "FailedScheduling", NoNode, Karpenter},
	} {
		t.Run(tc.component+" "+tc.reason, func(t *testing.T) {
			o, ok := Observe(eventBy(tc.component, tc.reason))
			require.True(t, ok)
			assert.Equal(t, Observation{tc.want, tc.autoscaler, time.Unix(1_800_000_000, 0)}, o)
			assert.Contains(t, Sources(), tc.component, "it is watched")
		})
	}
}

func TestOtherEventsAreNoReports(t *testing.T) {
	for name, e := range map[string]*corev1.Event{
		"a scheduler finds no node":        eventBy("default-scheduler", "FailedScheduling"),
		"another event of an autoscaler":   eventBy("cluster-autoscaler", "ScaleDown"),
		"a reason of the other autoscaler": eventBy("karpenter", "NotTriggerScaleUp"),
		"about a NodeClaim":                eventBy("karpenter", "InsufficientCapacityError", func(e *corev1.Event) { e.InvolvedObject.Kind = "NodeClaim" }),
		"about a pod of another namespace": eventBy("karpenter", "FailedScheduling", func(e *corev1.Event) { e.Namespace = "other" }),
		"about a pod of no UID":            eventBy("karpenter", "FailedScheduling", func(e *corev1.Event) { e.InvolvedObject.UID = "" }),
		"no component":                     eventBy("", "FailedScheduling"),
	} {
		t.Run(name, func(t *testing.T) {
			_, ok := Observe(e)
			assert.False(t, ok)
		})
	}
}

// An event of events.k8s.io has no source and no timestamps, and a repeated one has a series.
func TestAnEventOfEitherAPIIsObserved(t *testing.T) {
	first, last := metav1.NewMicroTime(time.Unix(1_800_000_100, 0)), metav1.NewMicroTime(time.Unix(1_800_000_200, 0))
	e := eventBy("", "FailedScheduling", func(e *corev1.Event) {
		e.LastTimestamp, e.EventTime, e.ReportingController = metav1.Time{}, first, "karpenter"
	})
	o, ok := Observe(e)
	require.True(t, ok)
	assert.Equal(t, first.Time, o.At)
	e.Series = &corev1.EventSeries{Count: 2, LastObservedTime: last}
	o, _ = Observe(e)
	assert.Equal(t, last.Time, o.At)
}

func TestOnlyALaunchIsWaitedFor(t *testing.T) {
	for r, ends := range map[Report][]bool{
		NoReport: {false, false, false}, Launches: {false, false, false}, LaunchFailed: {false, false, true}, NoNode: {true, true, true},
	} {
		for failed, want := range ends {
			after, ok := r.EndsAfter(failed)
			assert.Equal(t, want, ok, "%d after %d launches", r, failed)
			assert.LessOrEqual(t, after, 10*time.Second, "from the report to the replacement")
		}
	}
}

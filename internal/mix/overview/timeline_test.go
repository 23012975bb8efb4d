// SPDX-License-Identifier: Apache-2.0

package overview_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
)

var today = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(today.Add(-d)) }

// Conditions and ReplicaSets are there whichever controller leads, and longer than events.
func TestTheTimelineHasWhatObjectsKeep(t *testing.T) {
	m := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	m.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionSatisfied, Status: metav1.ConditionTrue, Reason: "MixSatisfied", LastTransitionTime: ago(20 * time.Hour)},
		{Type: v1alpha1.ConditionRebalancing, Status: metav1.ConditionFalse, Reason: "SpotStorm", LastTransitionTime: ago(time.Hour)},
		{Type: v1alpha1.ConditionSpotAvailable, Status: metav1.ConditionFalse, Reason: "SpotUnavailable", LastTransitionTime: ago(2 * time.Hour)},
		{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Valid", LastTransitionTime: ago(time.Hour)},
	}
	revision := func(name string, d time.Duration) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(name), CreationTimestamp: ago(d),
			OwnerReferences: []metav1.OwnerReference{{Kind: "Deployment", Name: "web", UID: "web", Controller: new(true)}},
		}}
	}
	owners := []metav1.Object{revision("web-3", 3*time.Hour), revision("web-1", 5*time.Hour), revision("web-0", 40*time.Hour), revision("web-2", 30*time.Hour)}
	timeline := overview.TimelineOf(&overview.Reading{Mixes: []*v1alpha1.CapacityMix{m}, Rollouts: overview.RolloutsOf(owners)}, nil, today)
	var all []string
	for _, h := range timeline.Happenings {
		all = append(all, string(h.Lane)+" "+h.Kind+"/"+h.Name+" "+h.Reason+" "+h.Message)
	}
	assert.Equal(t, []string{
		"Storms CapacityMix/web SpotStorm ", "Breaker CapacityMix/web SpotUnavailable ", "Rollouts Deployment/web RolloutBegan Revision web-3",
		"Rollouts Deployment/web RolloutBegan Revision web-1", "Mixes CapacityMix/web MixSatisfied ",
	}, all, "the newest first, and nothing from before a day, of the first revision, or of other conditions")
}

func TestATimelineHasTheLastOccurrenceOfAnEvent(t *testing.T) {
	e := &corev1.Event{
		Reason: v1alpha1.EventReasonBorrowed, Message: hostile, Type: corev1.EventTypeWarning,
		InvolvedObject: corev1.ObjectReference{Namespace: "shop", Kind: "Pod", Name: "web-1"},
		EventTime:      metav1.NewMicroTime(today.Add(-time.Hour)),
		Series:         &corev1.EventSeries{Count: 3, LastObservedTime: metav1.NewMicroTime(today.Add(-time.Minute))},
	}
	h, ok := overview.HappeningOf(e)
	require.True(t, ok)
	assert.Equal(t, overview.LaneBorrowing, h.Lane)
	assert.Equal(t, today.Add(-time.Minute), h.Time)
	assert.True(t, h.Bad)
	assert.NotContains(t, h.Message, "\x1b")
	e.Reason = "Scheduled"
	_, ok = overview.HappeningOf(e)
	assert.False(t, ok)
	assert.NotContains(t, overview.TimelineReasons(), "Scheduled")
}

func TestNodesAreSummedByNodePool(t *testing.T) {
	s := &shop{}
	pool := func(label, name string) func(*corev1.Node) { return func(n *corev1.Node) { n.Labels[label] = name } }
	s.node("s1", "spot", "a", pool("karpenter.sh/nodepool", "cheap"))
	s.node("s2", "spot", "b", pool("karpenter.sh/nodepool", "cheap"))
	s.node("o1", "on-demand", "a", pool("eks.amazonaws.com/nodegroup", "base"))
	s.node("o2", "on-demand", "a")
	s.mix("shop", "web", 50, 1)
	s.workload("shop", "web", 4, "o1", "s1", "o2", "s2")
	pods := map[string]overview.Maybe[int]{}
	for _, g := range overview.Of(s.input(t)).Pools {
		pods[g.Type+"/"+g.Zone] = g.Pods
	}
	assert.Equal(t, map[string]overview.Maybe[int]{
		"spot/cheap": overview.Known(2), "on-demand/base": overview.Known(1), "on-demand/": overview.Known(1),
	}, pods)
}

// SPDX-License-Identifier: Apache-2.0

package ungate

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics/testutil"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/fallback"
	"berth.dev/berth/plugins/internal/metrics"
	"berth.dev/berth/test/plugintest"
)

// unschedulable is an ungated pod that a scheduler found no node for.
func (f *fallbackFixture) unschedulable(i int, changes ...func(*corev1.Pod)) *corev1.Pod {
	f.t.Helper()
	pod, limited := f.ungated(i, changes...)
	require.Equal(f.t, capacity.Spot, limited)
	pod = plugintest.Unschedulable(pod, f.clock.Now())
	f.tell(pod)
	f.reconcile(pod)
	return pod
}

// report delivers an event of an autoscaler about a pod.
func (f *fallbackFixture) report(pod *corev1.Pod, component, reason string, changes ...func(*corev1.Event)) {
	f.t.Helper()
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: pod.Namespace},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Source:         corev1.EventSource{Component: component}, Reason: reason, LastTimestamp: metav1.NewTime(f.clock.Now()),
	}
	for _, change := range changes {
		change(e)
	}
	require.NoError(f.t, reports{f.fallback()}.Add(e))
}

// after has a pod evaluated after some time.
func (f *fallbackFixture) after(d time.Duration, pod *corev1.Pod) {
	f.t.Helper()
	f.clock.SetTime(f.clock.Now().Add(d))
	f.reconcile(pod)
}

func TestAPodFallsBackSecondsAfterAnAutoscalerReportsNoNode(t *testing.T) {
	for name, tc := range map[string]struct {
		component, reason string
		keeps, falls      time.Duration
	}{
		"cluster-autoscaler has no group": {"cluster-autoscaler", "NotTriggerScaleUp", time.Second, 2 * time.Second},
		"Karpenter has no instance type":  {"karpenter", "FailedScheduling", time.Second, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFallbackFixture(t)
			pod := f.unschedulable(0)
			f.clock.SetTime(f.clock.Now().Add(10 * time.Second))
			f.report(pod, tc.component, tc.reason)
			require.Contains(t, drain(f.fallback()), pod.Name, "it is evaluated again")
			f.after(tc.keeps, pod)
			require.Empty(t, f.deleted)
			f.after(tc.falls-tc.keeps, pod)
			require.Len(t, f.deleted, 1)
			assert.Contains(t, <-f.cluster.Recorder.Events, "reported that it launches none) and was deleted")
			f.gone(pod)
			assert.Equal(t, capacity.OnDemand, f.next(1))
			assert.Equal(t, f.clock.Now().Add(time.Minute).UTC(), f.markOf().RetryAt, "not only after the wait of the mix")
		})
	}
}

// The first launch may be of some instance types or zones.
func TestAPodFallsBackWhenLaunchesFailRepeatedly(t *testing.T) {
	f := newFallbackFixture(t)
	pod := f.unschedulable(0)
	f.report(pod, "karpenter", "Nominated")
	f.report(pod, "karpenter", "InsufficientCapacityError")
	f.report(pod, "karpenter", "Nominated")
	f.report(pod, "karpenter", "InsufficientCapacityError") // the watch delivers them again
	f.after(time.Minute, pod)
	require.Empty(t, f.deleted)
	f.report(pod, "karpenter", "InsufficientCapacityError")
	f.after(2*time.Second, pod)
	assert.Len(t, f.deleted, 1)
}

func TestAReportThatANodeIsLaunchedIsWaitedFor(t *testing.T) {
	f := newFallbackFixture(t)
	pod := f.unschedulable(0)
	f.report(pod, "karpenter", "InsufficientCapacityError")
	f.clock.SetTime(f.clock.Now().Add(time.Second))
	f.report(pod, "karpenter", "Nominated")
	f.after(spotWait-2*time.Second, pod)
	require.Empty(t, f.deleted)
	f.report(pod, "karpenter", "FailedScheduling", func(e *corev1.Event) { e.LastTimestamp = metav1.NewTime(plugintest.Noon) })
	f.after(time.Second-time.Millisecond, pod)
	require.Empty(t, f.deleted, "that was reported before")
	f.after(time.Millisecond, pod)
	assert.Len(t, f.deleted, 1, "its time is over")
	assert.InDelta(t, 1, causes(t, "wait")-f.waited, 0)
}

func TestAReportIsAboutOnePodOnly(t *testing.T) {
	f := newFallbackFixture(t)
	pod, other := f.unschedulable(0), f.unschedulable(1)
	f.report(pod, "karpenter", "FailedScheduling", func(e *corev1.Event) { e.InvolvedObject.UID = "its predecessor" })
	f.report(pod, "karpenter", "FailedScheduling", func(e *corev1.Event) { e.InvolvedObject.Namespace = "other" })
	f.after(time.Minute, pod)
	require.Empty(t, f.deleted)
	f.report(pod, "karpenter", "FailedScheduling")
	f.after(time.Minute, other)
	require.Empty(t, f.deleted)
	f.reconcile(pod)
	assert.Len(t, f.deleted, 1)
}

// What a scheduler is about to bind there is not deleted.
func TestAPodBesideAFreeSpotPlaceIsNotDeletedForAReport(t *testing.T) {
	f := newFallbackFixture(t)
	pod := f.unschedulable(0)
	f.report(pod, "karpenter", "FailedScheduling")
	f.spotNode("a", 10)
	f.after(time.Minute, pod)
	require.Empty(t, f.deleted)
	f.after(spotWait, pod)
	require.Len(t, f.deleted, 1, "its own constraints keep it from there")
	f.gone(pod)
	assert.Zero(t, f.markOf(), "which is no sign for spot")
}

func TestANominatedPodWaitsWhateverIsReported(t *testing.T) {
	f := newFallbackFixture(t)
	pod := f.unschedulable(0)
	pod.Status.NominatedNodeName = "node"
	f.tell(pod)
	f.report(pod, "karpenter", "FailedScheduling")
	f.after(spotWait, pod)
	assert.Empty(t, f.deleted)
}

// No node fits what three pods request. That is no sign for spot for others.
func TestReportsAboutLargePodsKeepNoSmallOneFromSpot(t *testing.T) {
	f := newFallbackFixture(t)
	large := func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200")},
		}}}
	}
	fails := func(from int, changes ...func(*corev1.Pod)) {
		var failed []*corev1.Pod
		for i := range fallback.Threshold {
			failed = append(failed, f.unschedulable(from+i, changes...))
			f.report(failed[i], "karpenter", "FailedScheduling")
		}
		f.clock.SetTime(f.clock.Now().Add(2 * time.Second))
		for _, pod := range failed {
			f.reconcile(pod)
			f.gone(pod)
		}
		for i := range failed {
			require.Equal(t, capacity.OnDemand, f.next(1000+from+i, changes...), "the successors")
		}
	}
	fails(0, large)
	require.Equal(t, capacity.OnDemand, f.next(10, large))
	assert.Equal(t, capacity.Spot, f.next(11), "a node may come for it")
	fails(20)
	assert.Equal(t, capacity.OnDemand, f.next(30), "none came for small pods either")
	assert.Equal(t, capacity.OnDemand, f.next(31, large))
}

// In a cluster with both, each reports about all pods, also where it has no node group for them.
func TestAPodWaitsWhileOneOfTheAutoscalersLaunchesANode(t *testing.T) {
	f := newFallbackFixture(t)
	pod := f.unschedulable(0)
	f.report(pod, "karpenter", "Nominated")
	f.clock.SetTime(f.clock.Now().Add(time.Second))
	f.report(pod, "cluster-autoscaler", "NotTriggerScaleUp")
	f.after(time.Minute, pod)
	require.Empty(t, f.deleted)
	f.report(pod, "karpenter", "FailedScheduling")
	f.after(2*time.Second, pod)
	assert.Len(t, f.deleted, 1)
}

// The list of events comes before the pods that another process limited to spot were evaluated.
func TestAReportFromBeforeThisProcessLedCounts(t *testing.T) {
	f := newFallbackFixture(t)
	pod := f.unschedulable(0)
	next := f.again(pod)
	next.report(pod, "cluster-autoscaler", "NotTriggerScaleUp")
	next.after(leaderGracePeriod-time.Second, pod)
	require.Empty(t, next.deleted, "nodes may have come meanwhile")
	next.after(time.Second, pod)
	assert.Len(t, next.deleted, 1)
}

func TestAUnitFallsBackByTheReportAboutOneOfItsPods(t *testing.T) {
	f := newFallbackFixture(t, byUnit)
	a, b := f.unschedulable(0, ofUnit("x")), f.unschedulable(1, ofUnit("x"))
	f.report(a, "karpenter", "FailedScheduling")
	before := causes(t, "karpenter")
	f.after(2*time.Second, a)
	assert.Len(t, f.deleted, 2)
	f.gone(a)
	f.gone(b)
	assert.Equal(t, 1, f.markOf().Failures)
	assert.InDelta(t, before+2, causes(t, "karpenter"), 0)
}

// Once others of its unit are deleted, a pod has to go as well.
func TestAPodOfAUnitThatFallsBackIsDeletedWhateverIsReported(t *testing.T) {
	f := newFallbackFixture(t, byUnit)
	a, b := f.unschedulable(0, ofUnit("x")), f.unschedulable(1, ofUnit("x"))
	f.report(a, "karpenter", "FailedScheduling")
	f.answer = apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, a.Name, errors.New("changed"))
	f.after(2*time.Second, a)
	require.Len(t, f.deleted, 2)
	f.answer = nil
	f.gone(b)
	f.clock.SetTime(f.clock.Now().Add(time.Second))
	f.report(a, "karpenter", "Nominated")
	f.spotNode("a", 10)
	f.after(2*placesAge, a)
	assert.Len(t, f.deleted, 3)
}

// It may be decided otherwise when it is evaluated again, and what deletes it then is no lack of spot.
func TestAPodThatWasNotDeletedForItChangedIsNoFailure(t *testing.T) {
	f := newFallbackFixture(t)
	pod := f.unschedulable(0)
	f.report(pod, "karpenter", "FailedScheduling")
	f.answer = apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, pod.Name, errors.New("changed"))
	f.after(2*time.Second, pod)
	require.Len(t, f.deleted, 1)
	f.report(pod, "karpenter", "Nominated")
	f.after(time.Second, pod)
	f.gone(pod)
	assert.Zero(t, f.markOf())
}

// causes is how many pods were deleted for a cause.
func causes(t *testing.T, cause string) float64 {
	t.Helper()
	n, err := testutil.GetCounterMetricValue(metrics.SpotPodsDeleted.WithLabelValues(cause))
	require.NoError(t, err)
	return n
}

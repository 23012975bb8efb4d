// SPDX-License-Identifier: Apache-2.0

package ungate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	f.report(pod, "karpenter", "InsufficientCapacityError") // the watch was interrupted
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

// Karpenter records a few events a second.
func TestPodsFollowWhatIsReportedAboutOthersOfTheirMixAndScope(t *testing.T) {
	f := newFallbackFixture(t)
	large := func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
		}}}
	}
	follows, small, launched, bound := f.unschedulable(10, large), f.unschedulable(11), f.unschedulable(12, large), f.unschedulable(14, large)
	elsewhere := f.unschedulable(13, large, inZone("b"))
	f.report(launched, "karpenter", "Nominated")
	f.clock.SetTime(f.clock.Now().Add(5 * time.Second))
	var failed []*corev1.Pod
	for i := range fallback.Threshold {
		failed = append(failed, f.unschedulable(i, large))
		f.report(failed[i], "karpenter", "FailedScheduling")
	}
	for _, pod := range failed {
		f.after(2*time.Second, pod)
		f.gone(pod)
	}
	require.Len(t, f.deleted, fallback.Threshold)
	f.deleted = nil
	f.after(followAfter-12*time.Second, follows)
	require.Empty(t, f.deleted, "a node may come for it")
	f.after(time.Second, follows)
	require.Len(t, f.deleted, 1)
	for _, pod := range []*corev1.Pod{small, launched, elsewhere} {
		f.reconcile(pod)
	}
	require.Len(t, f.deleted, 1)
	f.after(followLaunch-followAfter, launched)
	require.Len(t, f.deleted, 2, "its launch has failed as well, or takes long")
	f.reconcile(small)
	f.reconcile(elsewhere)
	require.Len(t, f.deleted, 2)

	bound.Spec.NodeName = "a"
	f.tell(bound)
	assert.Zero(t, f.markOf().Failures, "spot came")
	assert.Empty(t, f.fallback().pools[mixKey{"shop", "capacitymix/web"}][""].by)
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
	f.after(2*time.Second, a)
	assert.Len(t, f.deleted, 2)
	f.gone(a)
	f.gone(b)
	assert.Equal(t, 1, f.markOf().Failures)
}

// causes is how many pods were deleted for a cause.
func causes(t *testing.T, cause string) float64 {
	t.Helper()
	n, err := testutil.GetCounterMetricValue(metrics.SpotPodsDeleted.WithLabelValues(cause))
	require.NoError(t, err)
	return n
}

// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/testutil"
	testingclock "k8s.io/utils/clock/testing"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/fallback"
	"berth.dev/berth/internal/mix/gate"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// spotWait is the wait of the mixes here.
const spotWait = 10 * time.Minute

// fallbackFixture is a process that leads since noon, with a clock that the test
// sets. It deletes pods by a fake, which answers as the test wants.
type fallbackFixture struct {
	*fixture
	t       *testing.T
	clock   *testingclock.FakePassiveClock
	deleted []metav1.DeleteOptions
	answer  error
}

func newFallbackFixture(t *testing.T, changes ...func(*v1alpha1.CapacityMix)) *fallbackFixture {
	t.Helper()
	f := &fallbackFixture{fixture: newFixture(t, defaultArgs(), nil), t: t, clock: testingclock.NewFakePassiveClock(noon)}
	f.mix(t, capacityMix("web", 100, 0, append([]func(*v1alpha1.CapacityMix){func(cm *v1alpha1.CapacityMix) {
		cm.Spec.SpotWaitSeconds = new(int32(spotWait / time.Second))
	}}, changes...)...))
	fb := f.fallbacks()
	fb.clock, fb.ledSince = f.clock, noon
	f.client.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		f.deleted = append(f.deleted, a.(clienttesting.DeleteActionImpl).DeleteOptions)
		return true, nil, f.answer
	})
	return f
}

func (f *fallbackFixture) fallbacks() *fallbacks { return f.plugin.opener.fallbacks }

// opened is a pod whose gate was opened, and what the type is.
func (f *fallbackFixture) opened(i int, changes ...func(*corev1.Pod)) (*corev1.Pod, capacity.Type) {
	f.t.Helper()
	pod := gatedPod("web", i)
	for _, change := range changes {
		change(pod)
	}
	f.known(f.t, pod)
	pod = f.open(f.t, pod)
	f.tell(pod)
	t, ok := gate.Opened(pod)
	require.True(f.t, ok)
	return pod, t
}

// tell has the watch say how a pod is now.
func (f *fallbackFixture) tell(pod *corev1.Pod) {
	f.t.Helper()
	require.NoError(f.t, f.framework.SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer().Update(pod))
	f.watcher().fallback(pod)
	f.watcher().pod(pod)
}

// gone has the watch say that a pod is deleted.
func (f *fallbackFixture) gone(pod *corev1.Pod) {
	f.t.Helper()
	require.NoError(f.t, f.framework.SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer().Delete(pod))
	f.fallbacks().gone(pod.UID)
	f.watcher().forget(pod)
}

func (f *fallbackFixture) look(pod *corev1.Pod) {
	f.fallbacks().look(f.ctx, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
}

// unschedulable is a pod for which a scheduler found no node; the condition is False since a time.
func unschedulable(pod *corev1.Pod, since time.Time) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(since),
	}}
	return pod
}

// waits makes a pod wait without success, from now on, until just before its wait is over.
func (f *fallbackFixture) waits(pod *corev1.Pod) *corev1.Pod {
	f.t.Helper()
	pod = unschedulable(pod, f.clock.Now().Add(-time.Hour)) // it was gated for an hour
	f.tell(pod)
	f.look(pod)
	f.clock.SetTime(f.clock.Now().Add(spotWait - time.Second))
	f.look(pod)
	require.Empty(f.t, f.deleted, "the wait is not over")
	f.clock.SetTime(f.clock.Now().Add(time.Second))
	return pod
}

func TestAPodIsDeletedOnceItWaitedForSpotInVainAndItsSuccessorGoesToOnDemand(t *testing.T) {
	f := newFallbackFixture(t)
	pod, limited := f.opened(0)
	require.Equal(t, capacity.Spot, limited)
	pod = f.waits(pod)
	before := count(t)
	f.look(pod)
	require.Len(t, f.deleted, 1)
	assert.Equal(t, &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}, f.deleted[0].Preconditions)
	assert.Contains(t, <-f.recorder.Events, "Warning SpotUnavailable Pod web-0 found no spot node within 10m0s and was deleted")

	f.look(pod)
	require.Len(t, f.deleted, 1, "the cache does not know of the deletion yet")
	f.gone(pod)
	assert.InDelta(t, before+1, count(t), 0)
	successor, limited := f.opened(1, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })
	assert.Equal(t, capacity.OnDemand, limited)
	assert.Equal(t, map[string]string{"disk": "ssd", capacity.KarpenterCapacityType: "on-demand"}, successor.Spec.NodeSelector)
	assert.Equal(t, map[string]string{
		v1alpha1.SlotAnnotation: "0", v1alpha1.CapacityTypeAnnotation: "spot", v1alpha1.MixAnnotation: "capacitymix/web",
		v1alpha1.PodDeletionCostAnnotation: "-0", v1alpha1.ClaimAnnotation: "web-1/on-demand",
		v1alpha1.FallbackAnnotation: "1/2026-11-21T12:20:00Z",
	}, successor.Annotations)
	_, limited = f.opened(2)
	assert.Equal(t, capacity.Spot, limited, "one failure, one successor")
	copied, limited := f.opened(3, func(p *corev1.Pod) {
		p.Annotations = map[string]string{v1alpha1.FallbackAnnotation: "3/2026-11-21T12:20:00Z"}
	})
	assert.Equal(t, capacity.Spot, limited)
	assert.NotContains(t, copied.Annotations, v1alpha1.FallbackAnnotation)
}

// count is how many pods were deleted, by the metric.
func count(t *testing.T) float64 {
	t.Helper()
	n, err := testutil.GetCounterMetricValue(spotPodsDeleted)
	require.NoError(t, err)
	return n
}

func TestAMixThatChangesHoldsForThePodsThatWaitAlready(t *testing.T) {
	f := newFallbackFixture(t, patient)
	pod, _ := f.opened(0)
	pod = f.waits(pod)
	drain(f.fallbacks())
	f.mix(t, capacityMix("web", 100, 0))
	f.watcher().regroup("shop")
	require.Equal(t, []string{"web-0"}, drain(f.fallbacks()))
	f.look(pod)
	require.Len(t, f.deleted, 1, "it has waited for longer than the default")
	f.gone(pod)

	f.mix(t, capacityMix("web", 100, 0, patient))
	_, limited := f.opened(1)
	assert.Equal(t, capacity.Spot, limited, "now it says Wait, also for a successor")
}

// patient makes a mix one whose spot slots never fall back.
func patient(cm *v1alpha1.CapacityMix) {
	cm.Spec.WhenSpotUnavailable = v1alpha1.WhenSpotUnavailableWait
}

// drain takes the names of the pods that are to be looked at.
func drain(f *fallbacks) (names []string) {
	for f.queue.Len() > 0 {
		key, _ := f.queue.Get()
		f.queue.Done(key)
		names = append(names, key.Name)
	}
	return names
}

func TestWhoIsNotDeletedHoweverLongItWaits(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"it has a node":                       func(p *corev1.Pod) { p.Spec.NodeName = "node" },
		"another gate keeps it":               func(p *corev1.Pod) { p.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated },
		"no scheduler looked at it yet":       func(p *corev1.Pod) { p.Status.Conditions = nil },
		"it is deleted already":               func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(noon)) },
		"it has no controller":                func(p *corev1.Pod) { p.OwnerReferences = nil },
		"its Job would count it as failed":    func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = "batch/v1", "Job" },
		"what says that it was opened is not": func(p *corev1.Pod) { p.Annotations[v1alpha1.ClaimAnnotation] = "web-1/spot" },
		"it is limited to on-demand":          func(p *corev1.Pod) { p.Annotations[v1alpha1.ClaimAnnotation] = "web-0/on-demand" },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFallbackFixture(t)
			pod, _ := f.opened(0)
			pod = f.waits(pod)
			change(pod)
			f.tell(pod)
			f.look(pod)
			f.clock.SetTime(f.clock.Now().Add(time.Hour))
			f.look(pod)
			assert.Empty(t, f.deleted)
		})
	}
	t.Run("the mix says Wait", func(t *testing.T) {
		f := newFallbackFixture(t, patient)
		for i := range 5 {
			pod, limited := f.opened(i)
			assert.Equal(t, capacity.Spot, limited)
			f.look(f.waits(pod))
		}
		assert.Empty(t, f.deleted)
	})
}

// Its victims terminate, or an autoscaler makes the node. Who writes a node there again and again must not keep it from on-demand.
func TestANominatedPodWaitsForAsLongAgain(t *testing.T) {
	f := newFallbackFixture(t)
	pod, _ := f.opened(0)
	pod = f.waits(pod)
	pod.Status.NominatedNodeName = "node"
	f.tell(pod)
	f.clock.SetTime(noon.Add(spotWait + max(spotWait, nominatedWait) - time.Second))
	f.look(pod)
	assert.Empty(t, f.deleted)
	f.clock.SetTime(f.clock.Now().Add(time.Second))
	f.look(pod)
	assert.Len(t, f.deleted, 1)
}

// The others need not wait for as long, but no one is made in its place.
func TestAPodWithoutASuccessorIsCountedAndGivesNoCredit(t *testing.T) {
	f := newFallbackFixture(t)
	pod, _ := f.opened(0, func(p *corev1.Pod) { p.OwnerReferences = nil })
	pod = f.waits(pod)
	for range 3 {
		f.look(pod)
	}
	require.Len(t, f.recorder.Events, 1, "it reports it once")
	assert.Contains(t, <-f.recorder.Events, "since it has no controller that would make another: it waits on")
	_, limited := f.opened(1)
	assert.Equal(t, capacity.Spot, limited)
	assert.Equal(t, 1, f.fallbacks().pools[poolKey{"shop", "capacitymix/web"}].Mark().Failures)
}

func TestADeletionThatWasRefusedOrNotAnsweredIsMadeAgainAndCountsOnce(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, answer := range map[string]error{
		"the pod has changed":      apierrors.NewConflict(pods, "web-0", errors.New("changed")),
		"the API server is away":   errors.New("connection reset"),
		"it is not to be deleted":  apierrors.NewForbidden(pods, "web-0", errors.New("no")),
		"it takes too long":        apierrors.NewTimeoutError("slow", 1),
		"somebody else deleted it": apierrors.NewNotFound(pods, "web-0"),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFallbackFixture(t)
			pod, _ := f.opened(0)
			pod = f.waits(pod)
			f.answer = answer
			f.look(pod)
			require.Empty(t, f.fallbacks().pools[poolKey{"shop", "capacitymix/web"}].Mark(), "nothing is known yet")
			f.answer = nil
			if !apierrors.IsNotFound(answer) {
				f.look(pod)
				require.Len(t, f.deleted, 2)
			}
			f.gone(pod)
			f.gone(pod)
			assert.Equal(t, 1, f.fallbacks().pools[poolKey{"shop", "capacitymix/web"}].Mark().Failures)
			_, limited := f.opened(1)
			assert.Equal(t, capacity.OnDemand, limited)
		})
	}
}

func TestAPodThatIsBoundInTheSameMomentIsASuccess(t *testing.T) {
	f := newFallbackFixture(t)
	pod, _ := f.opened(0)
	pod = f.waits(pod)
	f.answer = apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web-0", errors.New("changed"))
	f.look(pod)
	pod.Spec.NodeName = "node"
	f.tell(pod)
	assert.Empty(t, f.fallbacks().waiting)
	f.gone(pod)
	_, limited := f.opened(1)
	assert.Equal(t, capacity.Spot, limited)
}

// fails has some pods wait without success and be deleted.
func (f *fallbackFixture) fails(from, n int) {
	f.t.Helper()
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pod, limited := f.opened(from + i)
		require.Equal(f.t, capacity.Spot, limited)
		pods[i] = unschedulable(pod, f.clock.Now())
		f.tell(pods[i])
		f.look(pods[i])
	}
	f.clock.SetTime(f.clock.Now().Add(spotWait))
	for _, pod := range pods {
		f.look(pod)
		f.gone(pod)
	}
}

// again is the next process that leads, with the pods that are there.
func (f *fallbackFixture) again(pods ...*corev1.Pod) *fallbackFixture {
	f.t.Helper()
	next := newFallbackFixture(f.t)
	next.known(f.t, pods...)
	next.clock.SetTime(f.clock.Now())
	next.fallbacks().lead(f.ctx)
	return next
}

func TestAnOpenCircuitBreakerOutlivesTheProcess(t *testing.T) {
	f := newFallbackFixture(t)
	f.fails(0, fallback.Threshold)
	fell, limited := f.opened(10)
	require.Equal(t, capacity.OnDemand, limited)
	f.opened(11)

	next := f.again(fell)
	for i := range 5 {
		pod, limited := next.opened(20 + i)
		assert.Equal(t, capacity.OnDemand, limited)
		assert.Equal(t, fell.Annotations[v1alpha1.FallbackAnnotation], pod.Annotations[v1alpha1.FallbackAnnotation])
	}
	next.clock.SetTime(noon.Add(2 * spotWait))
	_, limited = next.opened(30)
	assert.Equal(t, capacity.Spot, limited, "it is tried again")
	_, limited = next.opened(31)
	assert.Equal(t, capacity.OnDemand, limited, "by one")
}

func TestWhatAnotherProcessOpenedIsNotDeletedAsSoonAsThisOneLeads(t *testing.T) {
	f := newFallbackFixture(t)
	old, _ := f.opened(0)
	young, _ := f.opened(1)
	old, young = unschedulable(old, noon.Add(-time.Hour)), unschedulable(young, noon.Add(-spotWait+time.Minute))
	next := newFallbackFixture(t)
	next.known(t, old, young)
	for at, want := range map[time.Duration][2]int{0: {0, 0}, leaderGrace - 1: {0, 0}, leaderGrace: {1, 0}, time.Minute: {1, 1}} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			next := newFallbackFixture(t)
			next.known(t, old, young)
			for i, pod := range []*corev1.Pod{old, young} {
				next.deleted = nil
				next.clock.SetTime(noon)
				next.look(pod)
				next.clock.SetTime(noon.Add(at))
				next.look(pod)
				assert.Len(t, next.deleted, want[i], pod.Name)
			}
		})
	}
}

func TestAProcessThatDoesNotLeadNotesNothing(t *testing.T) {
	f := newFallbackFixture(t)
	pod, _ := f.opened(0)
	standby := newFallbackFixture(t)
	standby.fallbacks().ledSince = time.Time{}
	standby.known(t, pod)
	standby.tell(unschedulable(pod, noon))
	assert.Zero(t, standby.fallbacks().queue.Len())
	assert.Empty(t, standby.fallbacks().waiting)
}

func TestWhatTheWatchMissedIsMadeUpFor(t *testing.T) {
	f := newFallbackFixture(t)
	bound, _ := f.opened(0)
	deleted, _ := f.opened(1)
	waits, _ := f.opened(2)
	ends, _ := f.opened(3)
	require.Len(t, f.fallbacks().waiting, 4)
	bound.Spec.NodeName = "node"
	indexer := f.framework.SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer()
	require.NoError(t, indexer.Update(bound))
	require.NoError(t, indexer.Delete(deleted))
	ends.DeletionTimestamp = new(metav1.NewTime(noon))
	require.NoError(t, indexer.Update(ends))
	drain(f.fallbacks())
	f.fallbacks().tend()
	assert.Len(t, f.fallbacks().waiting, 1)
	assert.Equal(t, 1, f.fallbacks().queue.Len(), "it is looked at again: its mix may be another now")
	f.gone(waits)
	f.fallbacks().tend()
	assert.Empty(t, f.fallbacks().pools, "nothing is known any more")
}

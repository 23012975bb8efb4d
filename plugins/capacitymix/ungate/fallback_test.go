// SPDX-License-Identifier: Apache-2.0

package ungate

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
	testingclock "k8s.io/utils/clock/testing"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/fallback"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/test/plugintest"
)

// spotWait is the wait of the mixes here.
const spotWait = 10 * time.Minute

// fallbackFixture is a process that leads since plugintest.Noon, with a clock that the test
// sets. It deletes pods by a fake, whose answer the test sets.
type fallbackFixture struct {
	*fixture
	t       *testing.T
	clock   *testingclock.FakePassiveClock
	deleted []metav1.DeleteOptions
	answer  error
	// waited is how many pods had been deleted before because their wait was over.
	waited float64
}

func newFallbackFixture(t *testing.T, changes ...func(*v1alpha1.CapacityMix)) *fallbackFixture {
	t.Helper()
	f := &fallbackFixture{fixture: newFixture(t), t: t, clock: testingclock.NewFakePassiveClock(plugintest.Noon), waited: causes(t, "wait")}
	f.mix(t, plugintest.CapacityMix("web", 100, 0, append([]func(*v1alpha1.CapacityMix){func(cm *v1alpha1.CapacityMix) {
		cm.Spec.SpotWaitSeconds = new(int32(spotWait / time.Second))
	}}, changes...)...))
	fb := f.fallback()
	fb.clock, fb.places.clock, fb.leadsSince = f.clock, f.clock, plugintest.Noon
	f.cluster.React("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		f.deleted = append(f.deleted, a.(clienttesting.DeleteActionImpl).DeleteOptions)
		return true, nil, f.answer
	})
	return f
}

func (f *fallbackFixture) fallback() *spotFallback { return f.ungater.spotFallback }

// ungated is a pod whose gate was removed, and what the type is.
func (f *fallbackFixture) ungated(i int, changes ...func(*corev1.Pod)) (*corev1.Pod, capacity.Type) {
	f.t.Helper()
	pod := plugintest.GatedPod("web", i)
	for _, change := range changes {
		change(pod)
	}
	f.cluster.SetPods(f.t, pod)
	pod = f.ungate(f.t, pod)
	f.tell(pod)
	t, ok := gate.LimitedTo(pod)
	require.True(f.t, ok)
	return pod, t
}

// tell delivers a pod as the watch does.
func (f *fallbackFixture) tell(pod *corev1.Pod) {
	f.t.Helper()
	f.cluster.SetPods(f.t, pod)
	f.addPod(pod)
}

// gone delivers the deletion of a pod as the watch does.
func (f *fallbackFixture) gone(pod *corev1.Pod) {
	f.t.Helper()
	f.cluster.DeletePod(f.t, pod)
	f.ungater.PodHandler().OnDelete(pod)
}

// markOf is the state of the circuit breaker for pods like these.
func (f *fallbackFixture) markOf(changes ...func(*corev1.Pod)) fallback.Mark {
	f.t.Helper()
	pod := plugintest.GatedPod("web", 0)
	for _, change := range changes {
		change(pod)
	}
	of := f.fallback().pools[mixKey{"shop", "capacitymix/web"}][scopeOf(pod, nil).key]
	require.NotNil(f.t, of)
	return of.Mark()
}

func (f *fallbackFixture) reconcile(pod *corev1.Pod) {
	f.fallback().reconcile(f.ctx, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
}

// waits makes a pod wait without success, from now on, until just before its wait is over.
func (f *fallbackFixture) waits(pod *corev1.Pod) *corev1.Pod {
	f.t.Helper()
	pod = plugintest.Unschedulable(pod, f.clock.Now().Add(-time.Hour)) // it was gated for an hour
	f.tell(pod)
	f.reconcile(pod)
	f.clock.SetTime(f.clock.Now().Add(spotWait - time.Second))
	f.reconcile(pod)
	require.Empty(f.t, f.deleted, "the wait is not over")
	f.clock.SetTime(f.clock.Now().Add(time.Second))
	return pod
}

// ungatedAndWaits is an ungated pod whose wait is over.
func (f *fallbackFixture) ungatedAndWaits(i int, changes ...func(*corev1.Pod)) *corev1.Pod {
	f.t.Helper()
	pod, _ := f.ungated(i, changes...)
	return f.waits(pod)
}

func TestATimedOutPodIsDeletedAndItsSuccessorGoesToOnDemand(t *testing.T) {
	f := newFallbackFixture(t)
	pod, limited := f.ungated(0)
	require.Equal(t, capacity.Spot, limited)
	pod = f.waits(pod)
	before := count(t)
	f.reconcile(pod)
	require.Len(t, f.deleted, 1)
	assert.Equal(t, &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}, f.deleted[0].Preconditions)
	assert.Contains(t, <-f.cluster.Recorder.Events, "Warning SpotUnavailable Pod web-0 found no spot node within 10m0s and was deleted")

	f.reconcile(pod)
	require.Len(t, f.deleted, 1, "the cache does not know of the deletion yet")
	f.gone(pod)
	assert.InDelta(t, before+1, count(t), 0)
	successor, limited := f.ungated(1, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })
	assert.Equal(t, capacity.OnDemand, limited)
	assert.Equal(t, map[string]string{"disk": "ssd", capacity.KarpenterCapacityType: "on-demand"}, successor.Spec.NodeSelector)
	assert.Equal(t, map[string]string{
		v1alpha1.SlotAnnotation: "0", v1alpha1.CapacityTypeAnnotation: "spot", v1alpha1.MixAnnotation: "capacitymix/web",
		v1alpha1.PodDeletionCostAnnotation: "-0", v1alpha1.ClaimAnnotation: "web-1/on-demand",
		v1alpha1.FallbackAnnotation: "1/2026-11-21T12:20:00Z",
	}, successor.Annotations)
	_, limited = f.ungated(2)
	assert.Equal(t, capacity.Spot, limited, "one failure, one successor")
	copied, limited := f.ungated(3, func(p *corev1.Pod) {
		p.Annotations = map[string]string{v1alpha1.FallbackAnnotation: "3/2026-11-21T12:20:00Z"}
	})
	assert.Equal(t, capacity.Spot, limited)
	assert.NotContains(t, copied.Annotations, v1alpha1.FallbackAnnotation)
}

// count is how many pods were deleted, by the metric.
func count(t *testing.T) float64 {
	t.Helper()
	return causes(t, "wait")
}

func TestAMixThatChangesHoldsForThePodsThatWaitAlready(t *testing.T) {
	f := newFallbackFixture(t, patient)
	pod := f.ungatedAndWaits(0)
	f.clock.SetTime(plugintest.Noon.Add(time.Hour))
	drain(f.fallback())
	f.mix(t, plugintest.CapacityMix("web", 100, 0))
	f.ungater.MixHandler().OnAdd(plugintest.CapacityMix("web", 100, 0), false)
	require.Equal(t, []string{"web-0"}, drain(f.fallback()))
	f.reconcile(pod)
	require.Len(t, f.deleted, 1, "it has waited for longer than the default")
	f.gone(pod)

	f.mix(t, plugintest.CapacityMix("web", 100, 0, patient))
	_, limited := f.ungated(1)
	assert.Equal(t, capacity.Spot, limited, "now it says Wait, also for a successor")
}

// patient makes a mix one whose spot slots never fall back.
func patient(cm *v1alpha1.CapacityMix) {
	cm.Spec.WhenSpotUnavailable = v1alpha1.WhenSpotUnavailableWait
}

// drain takes the names of the pods that are to be looked at.
func drain(f *spotFallback) (names []string) {
	for f.queue.Len() > 0 {
		key, _ := f.queue.Get()
		f.queue.Done(key)
		names = append(names, key.Name)
	}
	return names
}

func TestSomePodsAreKeptHoweverLongTheyWait(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"it has a node":                    func(p *corev1.Pod) { p.Spec.NodeName = "node" },
		"another gate keeps it":            func(p *corev1.Pod) { p.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated },
		"no scheduler looked at it yet":    func(p *corev1.Pod) { p.Status.Conditions = nil },
		"it is deleted already":            func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(plugintest.Noon)) },
		"it has no controller":             func(p *corev1.Pod) { p.OwnerReferences = nil },
		"its Job would count it as failed": func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = "batch/v1", "Job" },
		"it is a step that runs once": func(p *corev1.Pod) {
			p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = "argoproj.io/v1alpha1", "Workflow"
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
		},
		"its controller creates no pods": func(p *corev1.Pod) {
			p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = "apps/v1", "Deployment"
		},
		"what says that it was ungated is not": func(p *corev1.Pod) { p.Annotations[v1alpha1.ClaimAnnotation] = "web-1/spot" },
		"it is limited to on-demand":           func(p *corev1.Pod) { p.Annotations[v1alpha1.ClaimAnnotation] = "web-0/on-demand" },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFallbackFixture(t)
			pod := f.ungatedAndWaits(0)
			change(pod)
			f.tell(pod)
			f.reconcile(pod)
			f.clock.SetTime(f.clock.Now().Add(time.Hour))
			f.reconcile(pod)
			assert.Empty(t, f.deleted)
		})
	}
	t.Run("the mix says Wait", func(t *testing.T) {
		f := newFallbackFixture(t, patient)
		for i := range 5 {
			pod, limited := f.ungated(i)
			assert.Equal(t, capacity.Spot, limited)
			f.reconcile(f.waits(pod))
		}
		assert.Empty(t, f.deleted)
	})
}

// Its victims terminate, or an autoscaler makes the node. Who writes a node there again and again must not keep it from on-demand.
func TestANominatedPodWaitsForAsLongAgain(t *testing.T) {
	f := newFallbackFixture(t)
	pod := f.ungatedAndWaits(0)
	pod.Status.NominatedNodeName = "node"
	f.tell(pod)
	f.clock.SetTime(plugintest.Noon.Add(spotWait + max(spotWait, nominatedWait) - time.Second))
	f.reconcile(pod)
	assert.Empty(t, f.deleted)
	f.clock.SetTime(f.clock.Now().Add(time.Second))
	f.reconcile(pod)
	assert.Len(t, f.deleted, 1)
}

// The other pods need not wait for as long, but no pod replaces this one.
func TestAPodWithoutASuccessorIsCountedAndGivesNoCredit(t *testing.T) {
	f := newFallbackFixture(t)
	pod := f.ungatedAndWaits(0, func(p *corev1.Pod) { p.OwnerReferences = nil })
	for range 3 {
		f.reconcile(pod)
	}
	require.Len(t, f.cluster.Recorder.Events, 1, "it reports it once")
	assert.Contains(t, <-f.cluster.Recorder.Events, "The pod keeps waiting and is not replaced by one on on-demand because it has no controller that would create another")
	_, limited := f.ungated(1)
	assert.Equal(t, capacity.Spot, limited)
	assert.Equal(t, 1, f.markOf().Failures)
}

func TestARefusedOrUnansweredDeletionIsRetriedAndCountsOnce(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, answer := range map[string]error{
		"the pod has changed":       apierrors.NewConflict(pods, "web-0", errors.New("changed")),
		"the API server is away":    errors.New("connection reset"),
		"it is not to be deleted":   apierrors.NewForbidden(pods, "web-0", errors.New("no")),
		"it takes too long":         apierrors.NewTimeoutError("slow", 1),
		"another client deleted it": apierrors.NewNotFound(pods, "web-0"),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFallbackFixture(t)
			pod := f.ungatedAndWaits(0)
			f.answer = answer
			f.reconcile(pod)
			require.Empty(t, f.markOf(), "nothing is known yet")
			f.answer = nil
			if !apierrors.IsNotFound(answer) {
				f.reconcile(pod)
				require.Len(t, f.deleted, 2)
			}
			f.gone(pod)
			f.gone(pod)
			assert.Equal(t, 1, f.markOf().Failures)
			_, limited := f.ungated(1)
			assert.Equal(t, capacity.OnDemand, limited)
		})
	}
}

func TestAPodThatIsBoundInTheSameMomentIsASuccess(t *testing.T) {
	f := newFallbackFixture(t)
	pod := f.ungatedAndWaits(0)
	f.answer = apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web-0", errors.New("changed"))
	f.reconcile(pod)
	pod.Spec.NodeName = "node"
	f.tell(pod)
	assert.Empty(t, f.fallback().waiting)
	f.gone(pod)
	_, limited := f.ungated(1)
	assert.Equal(t, capacity.Spot, limited)
}

// fails has some pods wait without success and be deleted.
func (f *fallbackFixture) fails(from, n int) {
	f.t.Helper()
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pod, limited := f.ungated(from + i)
		require.Equal(f.t, capacity.Spot, limited)
		pods[i] = plugintest.Unschedulable(pod, f.clock.Now())
		f.tell(pods[i])
		f.reconcile(pods[i])
	}
	f.clock.SetTime(f.clock.Now().Add(spotWait))
	for _, pod := range pods {
		f.reconcile(pod)
		f.gone(pod)
	}
}

// The wait of a pod begins when its gate is removed, however old the pod is, also in a process that leads later.
func TestAPodWaitsSinceItsGateWasRemoved(t *testing.T) {
	f := newFallbackFixture(t)
	f.clock.SetTime(plugintest.Noon.Add(time.Hour))
	pod, _ := f.ungated(0)
	pod = plugintest.Unschedulable(pod, plugintest.Noon) // it was gated for an hour
	next := f.again(pod)
	for _, after := range []time.Duration{leaderGracePeriod, spotWait - time.Second, spotWait} {
		next.clock.SetTime(plugintest.Noon.Add(time.Hour + after))
		next.reconcile(pod)
		assert.Len(t, next.deleted, map[bool]int{true: 1}[after == spotWait], "after %s", after)
	}
}

// again is the next process that leads, with the pods that are there.
func (f *fallbackFixture) again(pods ...*corev1.Pod) *fallbackFixture {
	f.t.Helper()
	next := newFallbackFixture(f.t)
	next.cluster.SetPods(f.t, pods...)
	next.clock.SetTime(f.clock.Now())
	next.fallback().takeOver(f.ctx)
	return next
}

func TestAnOpenCircuitBreakerOutlivesTheProcess(t *testing.T) {
	f := newFallbackFixture(t)
	f.fails(0, fallback.Threshold)
	fell, limited := f.ungated(10)
	require.Equal(t, capacity.OnDemand, limited)
	f.ungated(11)

	next := f.again(fell)
	for i := range 5 {
		pod, limited := next.ungated(20 + i)
		assert.Equal(t, capacity.OnDemand, limited)
		assert.Equal(t, fell.Annotations[v1alpha1.FallbackAnnotation], pod.Annotations[v1alpha1.FallbackAnnotation])
	}
	next.clock.SetTime(plugintest.Noon.Add(2 * spotWait))
	_, limited = next.ungated(30)
	assert.Equal(t, capacity.Spot, limited, "it is tried again")
	_, limited = next.ungated(31)
	assert.Equal(t, capacity.OnDemand, limited, "by one")
}

func TestWhatAnotherProcessOpenedIsNotDeletedAsSoonAsThisOneLeads(t *testing.T) {
	f := newFallbackFixture(t)
	f.clock.SetTime(plugintest.Noon.Add(-time.Hour))
	old, _ := f.ungated(0)
	young, _ := f.ungated(1)
	old, young = plugintest.Unschedulable(old, plugintest.Noon.Add(-time.Hour)), plugintest.Unschedulable(young, plugintest.Noon.Add(-spotWait+time.Minute))
	for at, want := range map[time.Duration][2]int{0: {0, 0}, leaderGracePeriod - 1: {0, 0}, leaderGracePeriod: {1, 0}, time.Minute: {1, 1}} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			next := newFallbackFixture(t)
			next.cluster.SetPods(t, old, young)
			for i, pod := range []*corev1.Pod{old, young} {
				next.deleted = nil
				next.clock.SetTime(plugintest.Noon)
				next.reconcile(pod)
				next.clock.SetTime(plugintest.Noon.Add(at))
				next.reconcile(pod)
				assert.Len(t, next.deleted, want[i], pod.Name)
			}
		})
	}
}

func TestAProcessThatDoesNotLeadNotesNothing(t *testing.T) {
	f := newFallbackFixture(t)
	pod, _ := f.ungated(0)
	standby := newFallbackFixture(t)
	standby.fallback().leadsSince = time.Time{}
	standby.cluster.SetPods(t, pod)
	standby.tell(plugintest.Unschedulable(pod, plugintest.Noon))
	assert.Zero(t, standby.fallback().queue.Len())
	assert.Empty(t, standby.fallback().waiting)
}

func TestWhatTheWatchMissedIsMadeUpFor(t *testing.T) {
	f := newFallbackFixture(t)
	bound, _ := f.ungated(0)
	deleted, _ := f.ungated(1)
	waits, _ := f.ungated(2)
	ends, _ := f.ungated(3)
	require.Len(t, f.fallback().waiting, 4)
	bound.Spec.NodeName = "node"
	indexer := f.cluster.Informers.Core().V1().Pods().Informer().GetIndexer()
	require.NoError(t, indexer.Update(bound))
	require.NoError(t, indexer.Delete(deleted))
	ends.DeletionTimestamp = new(metav1.NewTime(plugintest.Noon))
	require.NoError(t, indexer.Update(ends))
	drain(f.fallback())
	f.fallback().resync()
	assert.Len(t, f.fallback().waiting, 1)
	assert.Equal(t, 1, f.fallback().queue.Len(), "it is looked at again: its mix may be another now")
	f.gone(waits)
	f.fallback().resync()
	assert.Empty(t, f.fallback().pools, "nothing is known any more")
}

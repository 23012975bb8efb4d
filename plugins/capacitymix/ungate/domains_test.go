// SPDX-License-Identifier: Apache-2.0

package ungate

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/fallback"
	"berth.dev/berth/test/plugintest"
)

func inZone(zone string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zone} }
}

func spread(p *corev1.Pod) {
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}}
}

// failsIn has some pods wait without success and be deleted, so that their successors go to on-demand.
func (f *fallbackFixture) failsIn(from int, changes ...func(*corev1.Pod)) {
	f.t.Helper()
	var pods []*corev1.Pod
	for i := range fallback.Threshold {
		pod, limited := f.ungated(from+i, changes...)
		require.Equal(f.t, capacity.Spot, limited)
		pod = plugintest.Unschedulable(pod, f.clock.Now())
		f.tell(pod)
		f.reconcile(pod)
		pods = append(pods, pod)
	}
	f.clock.SetTime(f.clock.Now().Add(spotWait))
	for _, pod := range pods {
		f.reconcile(pod)
		f.gone(pod)
	}
	require.Len(f.t, f.deleted, len(pods))
	f.deleted = nil
	for i := range pods {
		require.Equal(f.t, capacity.OnDemand, f.next(1000+from+i, changes...))
	}
	f.clock.SetTime(f.clock.Now().Add(2 * placesAge))
}

// spotNode has the watch deliver a spot node with room for some pods in a zone.
func (f *fallbackFixture) spotNode(zone string, pods int) {
	f.t.Helper()
	node := plugintest.Node(zone, "spot")
	node.Status.Allocatable[corev1.ResourcePods] = *resource.NewQuantity(int64(pods), resource.DecimalSI)
	require.NoError(f.t, f.cluster.Informers.Core().V1().Nodes().Informer().GetIndexer().Add(node))
}

// next is the type that one more pod is limited to.
func (f *fallbackFixture) next(i int, changes ...func(*corev1.Pod)) capacity.Type {
	f.t.Helper()
	_, limited := f.ungated(i, changes...)
	return limited
}

func TestAZoneWithoutSpotDoesNotCountAgainstAnother(t *testing.T) {
	f := newFallbackFixture(t)
	f.failsIn(0, inZone("a"))
	assert.Equal(t, capacity.OnDemand, f.next(10, inZone("a")))
	assert.Equal(t, capacity.Spot, f.next(11, inZone("b")))
	assert.Equal(t, capacity.Spot, f.next(12), "a pod that may use both")

	// A new leader has the same from the marks of the pods.
	fell, _ := f.ungated(13, inZone("a"))
	next := f.again(fell)
	assert.Equal(t, capacity.OnDemand, next.next(20, inZone("a")))
	assert.Equal(t, capacity.Spot, next.next(21, inZone("b")))
}

func TestAFreeSpotPlaceClosesTheCircuitBreaker(t *testing.T) {
	f := newFallbackFixture(t)
	f.failsIn(0, inZone("a"))
	f.spotNode("b", 10)
	assert.Equal(t, capacity.OnDemand, f.next(10, inZone("a")), "a place where it may not be")
	f.spotNode("a", 0)
	f.clock.SetTime(f.clock.Now().Add(placesAge))
	assert.Equal(t, capacity.OnDemand, f.next(11, inZone("a")), "a node without room")
	f.spotNode("a", 1)
	f.clock.SetTime(f.clock.Now().Add(placesAge))
	for i := range 5 {
		assert.Equal(t, capacity.Spot, f.next(20+i, inZone("a")))
	}
}

func TestAPodThatItsSiblingsBlockDoesNotCountAgainstSpot(t *testing.T) {
	f := newFallbackFixture(t)
	f.spotNode("a", 10)
	f.failsIn(0, spread)
	assert.Zero(t, f.markOf(spread))
	assert.Equal(t, capacity.Spot, f.next(20, spread))
	assert.Equal(t, capacity.Spot, f.next(21))
}

func TestAPodThatIsBoundToSpotClosesTheCircuitBreakersOfItsNode(t *testing.T) {
	f := newFallbackFixture(t)
	f.spotNode("b", 0)
	late, limited := f.ungated(100, inZone("b"))
	require.Equal(t, capacity.Spot, limited)
	f.failsIn(0)
	f.failsIn(10, inZone("a"))
	f.failsIn(20, inZone("b"))
	late.Spec.NodeName = "b"
	f.tell(late)
	assert.Zero(t, f.markOf(inZone("b")).Failures)
	assert.Zero(t, f.markOf().Failures, "it may use the node too")
	assert.Equal(t, fallback.Threshold, f.markOf(inZone("a")).Failures)
}

// The template of a workload changes while one of its pods waits: the pod that comes instead of it selects other nodes.
func TestTheSuccessorOfAPodOfAnotherScopeGoesToOnDemand(t *testing.T) {
	f := newFallbackFixture(t)
	for i, zone := range []string{"a", "b", "c"} {
		pod := f.ungatedAndWaits(i, inZone(zone))
		f.reconcile(pod)
		f.gone(pod)
		f.deleted = nil
		assert.Equal(t, capacity.OnDemand, f.next(10+i, inZone("other "+zone)))
	}
}

// Pods that request little find a node where those that request much do not. Neither waits because of the others.
func TestSmallAndLargePodsDoNotCountForEachOther(t *testing.T) {
	f := newFallbackFixture(t)
	requests := func(cpu string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			}}}
		}
	}
	small, large := requests("100m"), requests("64")
	late, _ := f.ungated(100, small)
	f.failsIn(0, large)
	late.Spec.NodeName = "b"
	f.tell(late)
	assert.Equal(t, capacity.OnDemand, f.next(10, large), "that a small one is bound")
	f.spotNode("a", 10)
	f.clock.SetTime(f.clock.Now().Add(placesAge))
	assert.Equal(t, capacity.Spot, f.next(20, small))
	assert.Equal(t, capacity.OnDemand, f.next(21, large), "that there is room for a small one")
	assert.Equal(t, fallback.Threshold, f.markOf().Failures)
}

// The rebalancer evicts a pod once its replacement fits on a spot node, which may have come a moment after the last pod fell back.
func TestAPlaceThatCameSinceTheLastViewIsUsed(t *testing.T) {
	f := newFallbackFixture(t)
	f.failsIn(0)
	require.Equal(t, capacity.OnDemand, f.next(10))
	f.spotNode("a", 1)
	f.clock.SetTime(f.clock.Now().Add(placesAge / 10))
	assert.Equal(t, capacity.Spot, f.next(11))
}

// slowPods are pods that take some time to list.
type slowPods struct {
	corelisters.PodLister
	clock *testingclock.FakePassiveClock
	takes time.Duration
	lists int
}

func (s *slowPods) List(selector labels.Selector) ([]*corev1.Pod, error) {
	s.lists++
	s.clock.SetTime(s.clock.Now().Add(s.takes))
	return s.PodLister.List(selector)
}

// Pods that fall back one after the other do not have all pods of the cluster read each time.
func TestTheSearchesForPlacesTakeATenthOfTheTime(t *testing.T) {
	f := newFallbackFixture(t)
	f.failsIn(0)
	f.spotNode("a", 0)
	slow := &slowPods{PodLister: f.fallback().places.pods, clock: f.clock, takes: 10 * time.Millisecond}
	f.fallback().places.pods = slow
	for i := range 1000 {
		require.Equal(t, capacity.OnDemand, f.next(10+i))
		f.clock.SetTime(f.clock.Now().Add(time.Millisecond))
	}
	assert.InDelta(t, 10, slow.lists, 2, "in 1.1 s")
}

// Most of a view is what the pods of the cluster request, and few of them change between two views.
func TestWhatAPodRequestsIsSummedOnce(t *testing.T) {
	f := newFallbackFixture(t)
	f.spotNode("a", 2)
	pod := plugintest.Pod("web", 0)
	pod.Spec.NodeName = "a"
	store := f.cluster.Informers.Core().V1().Pods().Informer().GetIndexer()
	require.NoError(t, store.Add(pod))
	pl := &f.fallback().places
	view := func() fwk.PodInfo {
		f.clock.SetTime(f.clock.Now().Add(placesAge))
		pl.find(plugintest.GatedPod("web", 1), "web", false)
		require.Contains(t, pl.known, pod.UID)
		return pl.known[pod.UID]
	}
	first := view()
	assert.Same(t, first, view())
	changed := pod.DeepCopy()
	require.NoError(t, store.Update(changed))
	assert.Same(t, changed, view().GetPod(), "it may have been resized")
	require.NoError(t, store.Delete(changed))
	f.clock.SetTime(f.clock.Now().Add(placesAge))
	pl.find(plugintest.GatedPod("web", 1), "web", false)
	assert.Empty(t, pl.known)
}

// A place is kept for the pod that was limited to spot for it, until that is bound.
func TestAPlaceIsForOnePod(t *testing.T) {
	f := newFallbackFixture(t)
	f.failsIn(0)
	f.spotNode("a", 1)
	pl := &f.fallback().places
	place := func(name string) bool {
		pod := plugintest.GatedPod("web", 0)
		pod.Name, pod.UID = name, types.UID(name)
		return pl.find(pod, name, true)
	}
	assert.True(t, place("one"))
	assert.True(t, place("one"), "asked again")
	assert.False(t, place("two"))
	f.clock.SetTime(f.clock.Now().Add(2 * placesAge))
	assert.False(t, place("two"), "in the next view")
	pl.release("one")
	f.clock.SetTime(f.clock.Now().Add(2 * placesAge))
	assert.True(t, place("two"))
	f.clock.SetTime(f.clock.Now().Add(leaderGracePeriod))
	assert.True(t, place("three"), "two was never bound")
}

// Each search without a result tries all spot nodes.
func TestTheSearchesForPlacesAreBoundedForANamespace(t *testing.T) {
	f := newFallbackFixture(t)
	f.failsIn(0)
	f.spotNode("a", 0)
	pl := &f.fallback().places
	find := func(namespace, kind string) {
		pod := plugintest.GatedPod("web", 0)
		pod.Namespace = namespace
		pl.find(pod, kind, true)
	}
	for i := range 10 * maxSearches {
		find("shop", strconv.Itoa(i))
	}
	find("other", "other")
	assert.Len(t, pl.none, maxSearches+1)
}

// The selectors of a tenant's pods cost a bounded number of circuit breakers.
func TestTheCircuitBreakersOfAMixAreBounded(t *testing.T) {
	f := newFallbackFixture(t)
	for i := range 3 * maxScopes {
		f.next(i, inZone(strconv.Itoa(i)))
	}
	assert.Len(t, f.fallback().pools[mixKey{"shop", "capacitymix/web"}], maxScopes+1)
}

// A new revision has another hash in the selectors that the API server completes.
func TestTheScopeOfAPodIsThatOfItsNextRevision(t *testing.T) {
	f := newFallbackFixture(t)
	revision := func(hash string) *corev1.Pod {
		pod := plugintest.GatedPod("web", 0)
		spread(pod)
		pod.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels["pod-template-hash"] = hash
		return pod
	}
	one, two := scopeOf(revision("1"), f.ungater.label), scopeOf(revision("2"), f.ungater.label)
	assert.Equal(t, one.key, two.key)
	assert.True(t, one.siblings)
	ungated, _ := f.ungated(1, inZone("a"))
	gated := plugintest.GatedPod("web", 1)
	inZone("a")(gated)
	assert.Equal(t, scopeOf(gated, f.ungater.label).key, scopeOf(ungated, f.ungater.label).key, "before and after its gate is removed")
}

// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/plugins/capacitymix/lookup"
	"berth.dev/berth/plugins/capacitymix/state"
	"berth.dev/berth/test/plugintest"
)

// liveFixture is a plugin whose live look-ups the test answers.
type liveFixture struct {
	*fixture
	reads, lists atomic.Int64
	// blocked namespaces get no response.
	blocked   string
	owners    map[types.UID]metav1.Object
	answers   chan struct{} // one for every list
	activated plugintest.Activations
}

func newLiveFixture(t *testing.T, withMixes bool, objects ...runtime.Object) *liveFixture {
	t.Helper()
	f := &liveFixture{
		fixture:   newFixture(t, plugintest.Args(), twoNodes, objects...),
		owners:    map[types.UID]metav1.Object{},
		answers:   make(chan struct{}, 100),
		activated: make(plugintest.Activations, 100),
	}
	o := lookup.Options{
		Owners:     f.plugin.Owners,
		Classifier: f.plugin.Classifier,
		Resolver:   f.plugin.resolver,
		Activate:   f.activated.Activate,
		ReadOwner: func(_ context.Context, namespace string, ref *metav1.OwnerReference) (metav1.Object, error) {
			f.reads.Add(1)
			if namespace == f.blocked {
				<-t.Context().Done() // a real read ends after a timeout
				return nil, t.Context().Err()
			}
			return f.owners[ref.UID], nil
		},
	}
	if withMixes {
		o.ListMixes = func(ctx context.Context, _ string) ([]lookup.Mix, error) {
			f.lists.Add(1)
			select {
			case <-f.answers:
			case <-ctx.Done():
			}
			return nil, ctx.Err()
		}
	}
	f.plugin.Lookups = lookup.New(t.Context(), o)
	return f
}

func (f *liveFixture) preFilter(pod *corev1.Pod) (*preFilterState, string) {
	state := framework.NewCycleState()
	_, status := f.plugin.PreFilter(f.ctx, state, pod, f.infos)
	return readState(state), status.Message()
}

// held reports whether PreEnqueue holds a pod back.
func (f *liveFixture) held(t *testing.T, pod *corev1.Pod) bool {
	t.Helper()
	return f.plugin.PreEnqueue(t.Context(), pod).IsRejected()
}

func annotatedReplicaSet(uid types.UID, percent string) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(uid), UID: uid, Annotations: map[string]string{v1alpha1.SpotPercentAnnotation: percent}}}
}

func TestMixOnAnOwnerThatTheCachesHaveNotSeenIsRead(t *testing.T) {
	pod, sibling := plugintest.OwnedPod("a", "new"), plugintest.OwnedPod("b", "new")
	r := newLiveFixture(t, false, pod, sibling)
	r.owners["new"] = annotatedReplicaSet("new", "100%")
	held := 0
	for _, p := range []*corev1.Pod{pod, sibling} {
		if r.held(t, p) { // the sibling may come after the answer
			held++
		}
	}
	require.Positive(t, held)
	for released := 0; released < held; {
		released += len(r.activated.Next(t))
	}
	for _, p := range []*corev1.Pod{pod, sibling} {
		assert.Nil(t, r.plugin.PreEnqueue(t.Context(), p))
		c, _ := r.preFilter(p)
		require.NotNil(t, c)
		assert.Equal(t, "spot", c.slotType.String())
	}
	assert.EqualValues(t, 1, r.reads.Load(), "once per owner")

	r.plugin.Owners.Forget(r.owners["new"]) // and not in the cache: it is deleted
	c, message := r.preFilter(pod)
	assert.Nil(t, c)
	assert.Equal(t, ErrReasonLookupPending, message, "what was known when the pod was queued is looked for again")
	r.activated.Next(t)
	c, _ = r.preFilter(pod)
	assert.NotNil(t, c)
}

// Its own annotations have the mix, but not the highest owner.
func TestAPodOfTheTopIsHeldUntilItsOwnerIsKnown(t *testing.T) {
	pod := plugintest.OwnedPod("a", "new")
	pod.Annotations = map[string]string{v1alpha1.SpotPercentAnnotation: "50", v1alpha1.GroupAnnotation: "Top"}
	r := newLiveFixture(t, false, pod)
	rs := annotatedReplicaSet("new", "50")
	rs.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "web", Controller: new(true)}}
	r.owners["new"] = rs
	require.True(t, r.held(t, pod))
	r.activated.Next(t)
	require.False(t, r.held(t, pod))
	c, _ := r.preFilter(pod)
	require.NotNil(t, c)
	assert.Equal(t, "web", c.group.ID)
}

// The symptom: 200 pods with made-up references made 200 reads in the scheduling
// goroutine, one after the other, up to two seconds each.
func TestSchedulingReadsNoOwnersAndNamespacesDoNotWait(t *testing.T) {
	neighbour := plugintest.OwnedPod("neighbour", "real")
	neighbour.Namespace = "other"
	r := newLiveFixture(t, false, neighbour)
	r.blocked = "shop"
	rs := annotatedReplicaSet("real", "0")
	rs.Namespace = "other"
	r.owners["real"] = rs
	for i := range 200 {
		pod := plugintest.OwnedPod(fmt.Sprint("forged-", i), fmt.Sprint("none-", i))
		assert.True(t, r.held(t, pod))
		c, message := r.preFilter(pod)
		assert.Nil(t, c)
		assert.Equal(t, ErrReasonLookupPending, message)
	}
	require.Eventually(t, func() bool { return r.reads.Load() == 1 }, time.Minute, time.Millisecond, "the read that gets no answer begins")
	require.True(t, r.held(t, neighbour))
	assert.Equal(t, []string{"other/neighbour"}, r.activated.Next(t))
	assert.Nil(t, r.plugin.PreEnqueue(t.Context(), neighbour))
	c, _ := r.preFilter(neighbour)
	assert.NotNil(t, c)
	assert.EqualValues(t, 2, r.reads.Load(), "one at a time for a namespace")
}

// The symptom: a UID that a pod of another namespace names was treated as known.
func TestAnOwnerIsKnownByItsNamespaceToo(t *testing.T) {
	own := plugintest.OwnedPod("own", "uid")
	r := newLiveFixture(t, false, own)
	foreign := plugintest.OwnedPod("foreign", "uid")
	foreign.Namespace = "attacker"
	require.True(t, r.held(t, foreign))
	assert.Equal(t, []string{"attacker/foreign"}, r.activated.Next(t))
	assert.Nil(t, r.plugin.PreEnqueue(t.Context(), foreign), "its owner is known not to exist")

	r.owners["uid"] = annotatedReplicaSet("uid", "100")
	require.True(t, r.held(t, own))
	r.activated.Next(t)
	c, _ := r.preFilter(own)
	require.NotNil(t, c)
	assert.Equal(t, "spot", c.slotType.String())
}

// The symptom: with more pending owners than are remembered, every attempt of every pod was held for a list.
func TestPodsOfAnyNumberOfOwnersAreHeldOnce(t *testing.T) {
	f := newLiveFixture(t, true)
	const owners = 20_000
	pods := make([]*corev1.Pod, owners)
	for i := range pods {
		pods[i] = plugintest.OwnedPod(fmt.Sprint("pod-", i), fmt.Sprint("owner-", i))
		pods[i].OwnerReferences[0].APIVersion = "example.com/v1"
		pods[i].ResourceVersion = fmt.Sprint(i + 1)
		require.True(t, f.held(t, pods[i]))
	}
	close(f.answers)
	for released := 0; released < owners; {
		released += len(f.activated.Next(t))
	}
	for _, pod := range pods {
		require.Nil(t, f.plugin.PreEnqueue(t.Context(), pod), "they were there before the list")
	}
	for i, pod := range pods { // each was tried, and so changed
		pods[i] = plugintest.Unschedulable(pod, plugintest.Noon)
		pods[i].ResourceVersion = fmt.Sprint(owners + i + 1)
		require.Nil(t, f.plugin.PreEnqueue(t.Context(), pods[i]))
	}
	assert.LessOrEqual(t, f.lists.Load(), int64(2))
	next := plugintest.OwnedPod("next", "next")
	next.OwnerReferences[0].APIVersion, next.ResourceVersion = "example.com/v1", fmt.Sprint(3*owners)
	assert.True(t, f.held(t, next), "a pod that is new is held")
}

func TestOnlyTheFirstPodsOfAWorkloadThatNothingGovernsAreHeld(t *testing.T) {
	var known []runtime.Object
	for _, owner := range []types.UID{"g", "an", "stranger"} {
		known = append(known, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(owner), UID: owner}})
	}
	f := newLiveFixture(t, true, known...)
	f.mix(t, plugintest.CapacityMix("governed", 50, 0))

	governed := plugintest.OwnedPod("g", "g")
	governed.Labels = map[string]string{"app": "governed"}
	annotated := plugintest.OwnedPod("an", "an")
	annotated.Annotations = map[string]string{v1alpha1.SpotPercentAnnotation: "50"}
	bare := plugintest.OwnedPod("bare", "")
	bare.OwnerReferences = nil
	pinned := plugintest.OwnedPod("pinned", "pinned")
	pinned.Spec.NodeSelector = map[string]string{"karpenter.sh/capacity-type": "spot"}
	daemon := plugintest.OwnedPod("daemon", "daemon")
	daemon.OwnerReferences[0].Kind = "DaemonSet"
	for _, pod := range []*corev1.Pod{governed, annotated, bare, pinned, daemon} {
		assert.False(t, f.held(t, pod), pod.Name)
	}
	require.Zero(t, f.lists.Load())

	stranger := plugintest.OwnedPod("stranger", "stranger")
	assert.True(t, f.held(t, stranger))
	f.answers <- struct{}{}
	f.activated.Next(t)
	assert.False(t, f.held(t, stranger))
	assert.False(t, f.held(t, plugintest.OwnedPod("stranger-2", "stranger")))
}

func TestPodsAreHeldUntilTheLedgerHasSynced(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	c := plugintest.NewCluster(t, twoNodes, pod)
	pl, err := NewFactory()(c.Ctx, plugintest.Args(), c.Handle(t))
	require.NoError(t, err)
	f := &fixture{ctx: c.Ctx, plugin: pl.(*CapacityMix)}
	assert.Equal(t, state.ErrReasonNotSynced, f.plugin.PreEnqueue(c.Ctx, pod).Message())
	_, status := f.plugin.PreFilter(c.Ctx, framework.NewCycleState(), pod, nil)
	require.EqualError(t, status.AsError(), state.ErrReasonNotSynced, "it does not wait")
	assert.Empty(t, c.Activated.Pods())
	c.Start()
	require.Eventually(t, func() bool { return c.Activated.Pods()["shop/web-0"] == 1 }, 10*time.Second, time.Millisecond)
	assert.Nil(t, f.plugin.PreEnqueue(c.Ctx, pod))
}

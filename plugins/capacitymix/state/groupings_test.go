// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/arguments"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/test/plugintest"
)

// noUngater is for pods without the scheduling gate.
type noUngater struct{}

func (noUngater) Add(*corev1.Pod)        {}
func (noUngater) PodUpdated(*corev1.Pod) {}
func (noUngater) PodGone(types.UID)      {}
func (noUngater) MixChanged(*corev1.Pod) {}

// newState is the state of a scheduler that has started, with pods in its caches.
func newState(t *testing.T, pods ...*corev1.Pod) *State {
	t.Helper()
	c := plugintest.NewCluster(t, nil, plugintest.Objects(pods...)...)
	classifier, err := arguments.Classifier(plugintest.Args())
	require.NoError(t, err)
	s, err := New(c.Ctx, c.Handle(t), plugintest.Args(), classifier, nil, clock.RealClock{})
	require.NoError(t, err)
	s.ungater = noUngater{}
	s.regroups.Release(func() {})
	c.Informers.Core().V1().Pods().Informer()
	c.Start()
	return s
}

// interlude calls a function at the first look-up of a controller.
type interlude struct {
	governing.Controllers
	call func()
}

func (i *interlude) Controller(namespace string, ref *metav1.OwnerReference) metav1.Object {
	if call := i.call; call != nil {
		i.call = nil
		call()
	}
	return i.Controllers.Controller(namespace, ref)
}

// memberOfSet is a pod of a StatefulSet that runs.
func memberOfSet() *corev1.Pod {
	pod := plugintest.Pod("web", 0)
	ref := &pod.OwnerReferences[0]
	ref.APIVersion, ref.Kind, ref.Controller = "apps/v1", "StatefulSet", new(true)
	pod.Spec.NodeName = "o"
	return pod
}

// The watch of pods has resolved the mix of a pod. Before it records the pod, the watch of mixes delivers a change, and all pods are moved
// to their new groups: this one, too. It must not go back.
func TestAPodIsRecordedByTheMixOfThatMoment(t *testing.T) {
	pod := memberOfSet()
	s := newState(t, pod)
	before := plugintest.CapacityMix("web", 50, 0)
	s.MixHandler().OnAdd(before, false)
	after := plugintest.CapacityMix("web", 50, 0, func(cm *v1alpha1.CapacityMix) {
		cm.Spec.Group, cm.Generation = v1alpha1.PodGroupingSelector, 2
	})
	s.resolver.Controllers = &interlude{s.Owners, func() { s.MixHandler().OnUpdate(before, after) }}
	s.PodHandler().OnAdd(pod, false)
	assert.True(t, s.Ledger.Has(governing.GroupKey{Namespace: "shop", ID: "capacitymix/web"}))
	assert.False(t, s.Ledger.Has(governing.GroupKey{Namespace: "shop", ID: "web"}))
}

// The owner of pods has its first ordinal changed while one of them is recorded.
func TestAPodIsRecordedByTheOwnerOfThatMoment(t *testing.T) {
	pod := memberOfSet()
	pod.Name = "web-7"
	s := newState(t, pod)
	s.MixHandler().OnAdd(plugintest.CapacityMix("web", 50, 0), false)
	calls := 0
	s.resolver.Controllers = &interlude{s.Owners, func() {
		calls++
		s.changes.Add(1) // as ownerUpdated does
		s.resolver.Controllers = &interlude{s.Owners, func() { calls++ }}
	}}
	s.PodHandler().OnAdd(pod, false)
	assert.Equal(t, 2, calls, "it is resolved again")
}

// A mix may change again while the pods are moved: those that wait go on after the last change.
func TestPodsWaitForTheLastChangeOfTheirGroups(t *testing.T) {
	var g groupings
	pod := plugintest.Pod("web", 0)
	assert.False(t, g.wait(pod))
	g.begin("shop")
	assert.True(t, g.wait(pod))
	assert.False(t, g.wait(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other"}}))
	assert.Empty(t, g.end("shop", g.made("shop")), "the mixes do not have the change yet")
	g.set("shop")
	first := g.made("shop")
	g.begin("shop")
	assert.Empty(t, g.end("shop", first), "another one has begun")
	g.set("shop")
	assert.Equal(t, []*corev1.Pod{pod}, g.end("shop", g.made("shop")))
	assert.False(t, g.wait(pod))
	assert.Zero(t, g.behind.Load())
}

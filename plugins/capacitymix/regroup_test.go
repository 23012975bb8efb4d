// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/test/plugintest"
)

// lister lists pods as they were before the events that were handled since, and counts the lists.
type lister struct {
	corelisters.PodLister
	corelisters.PodNamespaceLister
	pods  []*corev1.Pod // nil: as they are
	lists atomic.Int32
}

// Pods returns the lister itself.
func (l *lister) Pods(namespace string) corelisters.PodNamespaceLister {
	l.PodNamespaceLister = l.PodLister.Pods(namespace)
	return l
}

// List implements both listers.
func (l *lister) List(s labels.Selector) ([]*corev1.Pod, error) {
	if l.lists.Add(1); l.pods != nil {
		return l.pods, nil
	}
	return l.PodNamespaceLister.List(s)
}

// listBy has the plugin list pods by a lister of the test.
func (f *fixture) listBy(l *lister) *lister {
	l.PodLister = f.cluster.Informers.Core().V1().Pods().Lister()
	f.plugin.Pods = l
	return l
}

// changeAfterList has the watch deliver a pod that changes between a list of the pods and the use of the list.
func (f *fixture) changeAfterList(t *testing.T, before, after *corev1.Pod) {
	t.Helper()
	f.cluster.SetPods(t, after)
	f.plugin.PodHandler().OnUpdate(before, after)
	f.listBy(&lister{pods: []*corev1.Pod{before}})
}

func TestAPodThatTerminatesWhileItIsRegroupedKeepsNoSlot(t *testing.T) {
	pod, next := plugintest.Pod("web", 0), plugintest.Pod("web", 1)
	pod.ResourceVersion = "1"
	f := webFixture(t, 50, pod, next)
	f.bound(t, pod, "o", 0)
	terminating := pod.DeepCopy()
	terminating.ResourceVersion, terminating.DeletionTimestamp = "2", new(metav1.NewTime(plugintest.Noon))
	f.changeAfterList(t, pod, terminating)
	f.changeMix(plugintest.CapacityMix("web", 50, 0, bySelector))
	slot, _ := f.place(t, next)
	assert.Equal(t, 0, slot, "its slot is free")
}

func TestAPodThatIsBoundWhileItIsRegroupedStaysOnItsNode(t *testing.T) {
	gated := plugintest.GatedPod("web", 0)
	f := webFixture(t, 100, gated)
	ungated := f.ungate(t, gated)
	ungated.ResourceVersion = "6"
	f.cluster.SetPods(t, ungated)
	bound := ungated.DeepCopy()
	bound.ResourceVersion, bound.Spec.NodeName = "7", "s"
	f.changeAfterList(t, ungated, bound)
	f.changeMix(plugintest.CapacityMix("web", 100, 0, bySelector))
	assert.Empty(t, f.plugin.Ledger.Pending(""))
	require.True(t, f.plugin.Ledger.Gone(bound.UID), "it runs")
}

// replicaSet is the ReplicaSet of OwnedPods in the caches of the plugin.
func (f *fixture) replicaSet(t *testing.T, name string, annotations map[string]string) *appsv1.ReplicaSet {
	t.Helper()
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Annotations: annotations}}
	require.NoError(t, f.cluster.Informers.Apps().V1().ReplicaSets().Informer().GetIndexer().Update(rs))
	return rs
}

// annotate has the watch deliver a ReplicaSet with other annotations.
func (f *fixture) annotate(t *testing.T, before *appsv1.ReplicaSet, annotations map[string]string) *appsv1.ReplicaSet {
	t.Helper()
	rs := f.replicaSet(t, before.Name, annotations)
	f.plugin.OwnerHandler().OnUpdate(before, rs)
	return rs
}

func percent(n int) map[string]string {
	return map[string]string{v1alpha1.SpotPercentAnnotation: fmt.Sprint(n)}
}

// The Deployment controller writes the wanted size on its ReplicaSets at each scaling.
func TestAnnotationsThatAreNoMixListNoPods(t *testing.T) {
	f := newFixture(t, plugintest.Args(), twoNodes)
	l := f.listBy(&lister{})
	rs := f.replicaSet(t, "web", nil)
	for i := range 100 {
		rs = f.annotate(t, rs, map[string]string{"deployment.kubernetes.io/desired-replicas": fmt.Sprint(i)})
	}
	assert.Zero(t, l.lists.Load())
	f.annotate(t, rs, percent(50))
	assert.EqualValues(t, 1, l.lists.Load())
}

func TestAChangedMixOfAnnotationsIsThrottledBySize(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 2000 {
		pods = append(pods, plugintest.Pod("other", i))
	}
	f := newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(pods...)...)
	l := f.listBy(&lister{})
	for i := range 100 {
		f.annotate(t, f.replicaSet(t, fmt.Sprint("web-", i), nil), percent(50))
	}
	assert.Never(t, func() bool { return l.lists.Load() > 1 }, 200*time.Millisecond, 10*time.Millisecond, "the others share one list")
	assert.Eventually(t, func() bool { return l.lists.Load() == 2 }, 10*time.Second, 10*time.Millisecond)
}

// A user edits the percentage, which activates the pods that wait, and then the group.
func TestPodsAreRegroupedAlsoWhileActivationsPause(t *testing.T) {
	pods := runners(40)
	f := newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(pods...)...)
	f.mix(t, plugintest.CapacityMix("web", 100, 0))
	for _, pod := range pods[:10] {
		f.place(t, pod)
	}
	for _, pod := range pods[10:] {
		f.filter(t, pod) // waits
	}
	f.changeMix(plugintest.CapacityMix("web", 50, 0))
	f.changeMix(plugintest.CapacityMix("web", 50, 0, bySelector))
	assert.True(t, f.plugin.Ledger.Has(governing.GroupKey{Namespace: "shop", ID: "capacitymix/web"}))
	slot, _ := f.place(t, pods[10])
	assert.NotZero(t, slot, "one of the ten that run holds it")
}

// At the start, pods may come before their owners, which need not have the annotations of the pods.
func TestOwnersThatComeAtTheStartShareOneList(t *testing.T) {
	pods := make([]*corev1.Pod, 20)
	for i := range pods {
		pods[i] = plugintest.OwnedPod(fmt.Sprint("pod-", i), fmt.Sprint("web-", i))
		pods[i].Annotations = map[string]string{
			v1alpha1.SpotPercentAnnotation: "50", v1alpha1.GroupAnnotation: "Top", v1alpha1.SlotAnnotation: fmt.Sprint(i),
		}
		pods[i].Spec.NodeName = "o"
	}
	c := plugintest.NewCluster(t, twoNodes, plugintest.Objects(pods...)...)
	pl, err := NewFactory()(c.Ctx, plugintest.Args(), c.Handle(t))
	require.NoError(t, err)
	f := &fixture{ctx: c.Ctx, cluster: c, plugin: pl.(*CapacityMix)}
	l := f.listBy(&lister{})
	for _, pod := range pods {
		f.addPod(pod)
	}
	for i := range pods {
		f.plugin.OwnerHandler().OnAdd(f.replicaSet(t, fmt.Sprint("web-", i), nil), false)
	}
	c.Start()
	require.NoError(t, f.plugin.Startup.Wait(t.Context()))
	assert.EqualValues(t, 1, l.lists.Load())
}

func TestAChangedMixOfAnOwnerWakesItsPodsInAnyGroup(t *testing.T) {
	annotations := func(n int) map[string]string {
		a := percent(n)
		a[v1alpha1.GroupAnnotation] = "api"
		return a
	}
	pod, other := plugintest.OwnedPod("a", "web"), plugintest.OwnedPod("b", "other")
	f := newFixture(t, plugintest.Args(), twoNodes, pod, other)
	rs := f.replicaSet(t, "web", annotations(0))
	f.replicaSet(t, "other", annotations(0))
	f.filter(t, pod)
	f.filter(t, other)
	f.annotate(t, rs, annotations(100))
	assert.Equal(t, map[string]int{"shop/a": 1}, f.cluster.Activated.Pods())
}

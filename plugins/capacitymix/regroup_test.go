// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"

	"berth.dev/berth/test/plugintest"
)

// staleLists lists pods as they were before the events that were handled since.
type staleLists struct {
	corelisters.PodLister
	corelisters.PodNamespaceLister
	pods []*corev1.Pod
}

// Pods returns the lister itself.
func (l *staleLists) Pods(namespace string) corelisters.PodNamespaceLister {
	l.PodNamespaceLister = l.PodLister.Pods(namespace)
	return l
}

// List implements both listers.
func (l *staleLists) List(labels.Selector) ([]*corev1.Pod, error) { return l.pods, nil }

// changeAfterList has the watch deliver a pod that changes between a list of the pods and the use of the list.
func (f *fixture) changeAfterList(t *testing.T, before, after *corev1.Pod) {
	t.Helper()
	f.cluster.SetPods(t, after)
	f.plugin.PodHandler().OnUpdate(before, after)
	f.plugin.Pods = &staleLists{PodLister: f.cluster.Informers.Core().V1().Pods().Lister(), pods: []*corev1.Pod{before}}
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

// SPDX-License-Identifier: Apache-2.0

package ungate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/test/plugintest"
)

const unitLabel = "example.com/unit"

// byUnit makes the pods with one value of a label a unit.
func byUnit(cm *v1alpha1.CapacityMix) {
	cm.Spec.Unit = &v1alpha1.PodUnit{Type: v1alpha1.PodUnitLabel, LabelKey: unitLabel}
}

func ofUnit(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[unitLabel] = name }
}

// runs is a pod of unit a on a spot node.
func (f *fallbackFixture) runs(i int) *corev1.Pod {
	f.t.Helper()
	pod, _ := f.ungated(i, ofUnit("a"))
	pod.Spec.NodeName = "spot-node"
	f.tell(pod)
	return pod
}

func TestAUnitFallsBackAsAWhole(t *testing.T) {
	f := newFallbackFixture(t, byUnit)
	var unit []*corev1.Pod
	for i := range 3 {
		pod, limited := f.ungated(i, ofUnit("a"))
		require.Equal(t, capacity.Spot, limited)
		unit = append(unit, pod)
	}
	unit[0] = f.waits(unit[0])
	f.reconcile(unit[0])
	assert.Len(t, f.deleted, 3, "one has waited for long enough")
	assert.Equal(t, 1, f.markOf().Failures, "a unit is one failure")

	early := plugintest.GatedPod("web", 3)
	ofUnit("a")(early)
	f.cluster.SetPods(t, early)
	f.gone(unit[0])
	_, _, err := f.ungater.Patch(early)
	require.ErrorIs(t, err, errUnitFallsBack, "the others hold the unit to spot")
	f.gone(unit[1])
	f.gone(unit[2])
	for i := range 3 {
		successor, limited := f.ungated(3+i, ofUnit("a"))
		assert.Equal(t, capacity.OnDemand, limited)
		assert.Equal(t, "0", successor.Annotations[v1alpha1.SlotAnnotation])
		assert.Equal(t, "spot", successor.Annotations[v1alpha1.CapacityTypeAnnotation], "the type of the slot")
	}
	_, limited := f.ungated(6, ofUnit("b"))
	assert.Equal(t, capacity.Spot, limited, "one unit failed, and one was replaced")
}

// The ledger has the pods of the last event that changed their place, and the API server compares versions.
func TestAUnitIsDeletedAsTheWatchHasIt(t *testing.T) {
	f := newFallbackFixture(t, byUnit)
	first, _ := f.ungated(0, ofUnit("a"))
	second, _ := f.ungated(1, ofUnit("a"))
	second = plugintest.Unschedulable(second, f.clock.Now())
	second.ResourceVersion = "4711"
	f.cluster.SetPods(t, second) // the status alone has changed
	first = f.waits(first)
	f.reconcile(first)
	require.Len(t, f.deleted, 2)
	assert.Equal(t, &metav1.Preconditions{UID: &second.UID, ResourceVersion: &second.ResourceVersion}, f.deleted[1].Preconditions)
}

// A deletion that is refused, or gets no answer, is tried again, also for a pod whose own wait is not over.
func TestEachPodOfAUnitIsDeletedInTheEnd(t *testing.T) {
	f := newFallbackFixture(t, byUnit)
	first, _ := f.ungated(0, ofUnit("a"))
	second, _ := f.ungated(1, ofUnit("a"))
	first = f.waits(first)
	f.answer = apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web-0", nil)
	f.reconcile(first)
	require.Len(t, f.deleted, 2)
	f.answer = nil
	f.gone(first)
	f.reconcile(second)
	require.Len(t, f.deleted, 3)
	assert.Equal(t, &second.UID, f.deleted[2].Preconditions.UID)
	f.gone(second)
	assert.Equal(t, 1, f.markOf().Failures, "a unit is one failure")
	_, limited := f.ungated(2, ofUnit("a"))
	assert.Equal(t, capacity.OnDemand, limited)
}

// The pods that run may end without successors.
func TestAPodWaitsForItsUnitOnlyWhileItRuns(t *testing.T) {
	f := newFallbackFixture(t, byUnit)
	running := f.runs(0)
	pod := f.ungatedAndWaits(1, ofUnit("a"))
	f.reconcile(pod)
	f.gone(running)
	f.reconcile(pod)
	assert.Empty(t, f.deleted, "it waits once more")
	f.clock.SetTime(f.clock.Now().Add(spotWait))
	f.reconcile(pod)
	assert.Len(t, f.deleted, 1)
}

func TestUnitsWithNamesOfTheirOwnAreForgotten(t *testing.T) {
	f := newFallbackFixture(t, byUnit)
	first, _ := f.ungated(0, ofUnit("a"))
	second, _ := f.ungated(1, ofUnit("a"))
	f.reconcile(f.waits(first))
	require.NotEmpty(t, f.fallback().units.all)
	f.gone(first)
	f.gone(second)
	f.fallback().resync()
	assert.Empty(t, f.fallback().units.all)
}

// The type of a gated pod is chosen without the lock of the ledger, and another pod of its unit may be bound meanwhile.
func TestAPodFollowsItsUnitThatGotATypeMeanwhile(t *testing.T) {
	f := newFallbackFixture(t, byUnit)
	gated := plugintest.GatedPod("web", 0)
	ofUnit("a")(gated)
	f.cluster.SetPods(t, gated)
	_, _, err := f.ungater.Patch(gated)
	require.NoError(t, err)
	assert.True(t, f.ungater.Ledger.Lean(gated.UID, capacity.Spot))
	f.runs(1)
	assert.False(t, f.ungater.Ledger.Lean(gated.UID, capacity.OnDemand))
	assert.True(t, f.ungater.Ledger.Lean(gated.UID, capacity.Spot))
}

func TestAUnitOfWhichAPodRunsDoesNotFallBack(t *testing.T) {
	f := newFallbackFixture(t, byUnit)
	f.runs(0)
	pod := f.ungatedAndWaits(1, ofUnit("a"))
	f.reconcile(pod)
	assert.Empty(t, f.deleted)
	assert.Contains(t, <-f.cluster.Recorder.Events, "other pods of its unit run on spot nodes")
}

// A pod that finds a node while its unit is being deleted keeps the unit on its type.
func TestAPodThatRunsMeanwhileKeepsItsUnitOnSpot(t *testing.T) {
	f := newFallbackFixture(t, byUnit)
	first, _ := f.ungated(0, ofUnit("a"))
	second, _ := f.ungated(1, ofUnit("a"))
	first = f.waits(first)
	f.answer = apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web-1", nil)
	f.reconcile(first)
	f.answer = nil
	f.gone(first)
	second.Spec.NodeName = "spot-node"
	f.tell(second)
	_, limited := f.ungated(2, ofUnit("a"))
	assert.Equal(t, capacity.Spot, limited)
}

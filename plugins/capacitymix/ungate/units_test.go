// SPDX-License-Identifier: Apache-2.0

package ungate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

func TestAUnitOfWhichAPodRunsDoesNotFallBack(t *testing.T) {
	f := newFallbackFixture(t, byUnit)
	running, _ := f.ungated(0, ofUnit("a"))
	running.Spec.NodeName = "spot-node"
	f.tell(running)
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

// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

func TestAMixThatIsOnTargetIsNotBlocked(t *testing.T) {
	for reason, want := range map[string]string{"OnTarget": "", v1alpha1.ReasonPodsPending: "PodsPending", "InsufficientCapacity": "InsufficientCapacity"} {
		cm := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
		cm.Status.ObservedGeneration = 3
		cm.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRebalancing, Status: metav1.ConditionFalse, Reason: reason}}
		assert.Equal(t, want, blockedBy(cm), reason)
	}
}

func TestTheFloorOfAMixIsWhatItsConditionReports(t *testing.T) {
	protected := func(status metav1.ConditionStatus, reason string, generation int64) *v1alpha1.CapacityMix {
		cm := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
		cm.Spec.ProtectFloor, cm.Status.ObservedGeneration = true, generation
		cm.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFloorProtected, Status: status, Reason: reason, Message: "why"}}
		return cm
	}
	kept := floorOf(protected(metav1.ConditionTrue, v1alpha1.ReasonBudgetsKept, 3))
	assert.Equal(t, &FloorStatus{Protected: Known(true), Reason: v1alpha1.ReasonBudgetsKept, Message: "why"}, kept)
	assert.Equal(t, "Protected", kept.Word())
	units := floorOf(protected(metav1.ConditionFalse, v1alpha1.ReasonUnits, 3))
	assert.Equal(t, Known(false), units.Protected)
	assert.Equal(t, "UnitsOfPods", units.Word())
	for name, cm := range map[string]*v1alpha1.CapacityMix{
		"of an older spec": protected(metav1.ConditionTrue, v1alpha1.ReasonBudgetsKept, 2),
		"not reported":     {Spec: v1alpha1.CapacityMixSpec{ProtectFloor: true}},
	} {
		assert.Equal(t, &FloorStatus{}, floorOf(cm), name)
		assert.Equal(t, "<unknown>", floorOf(cm).Word(), name)
	}
	without := protected(metav1.ConditionTrue, v1alpha1.ReasonBudgetsKept, 3)
	without.Spec.ProtectFloor = false
	assert.Nil(t, floorOf(without))
	assert.Empty(t, floorOf(without).Word())

	s := &Status{Mixes: []MixStatus{{Namespace: "shop", Name: "web", Floor: units}, {Namespace: "shop", Name: "api", Floor: kept}}}
	assert.Contains(t, notes(s), "the floor of CapacityMix shop/web is not protected: UnitsOfPods: why")
	assert.NotContains(t, notes(s), "the floor of CapacityMix shop/api is not protected: BudgetsKept: why")
}

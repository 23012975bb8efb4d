// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

func TestABindingWritesTheDeletionCostUnlessOthersDecideIt(t *testing.T) {
	const cost = v1alpha1.PodDeletionCostAnnotation
	pod, own := &corev1.Pod{}, &corev1.Pod{}
	own.Annotations = map[string]string{cost: "7"}
	enforce, respect := &governing.Mix{Source: "capacitymix/web"}, &governing.Mix{Source: "capacitymix/web", RespectCosts: true}
	marks := map[string]string{v1alpha1.SlotAnnotation: "3", v1alpha1.CapacityTypeAnnotation: "spot", v1alpha1.MixAnnotation: "capacitymix/web"}
	assert.Equal(t, marks, ledger.Annotations(pod, 3, capacity.Spot, respect), "the mix leaves the costs to others")
	assert.Equal(t, marks, ledger.Annotations(own, 3, capacity.Spot, enforce), "the user set one")
	marks[cost] = "-3"
	assert.Equal(t, marks, ledger.Annotations(pod, 3, capacity.Spot, enforce))
}

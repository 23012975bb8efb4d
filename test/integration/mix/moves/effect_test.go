// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestAMixOfSingleReplicasHasNoEffectUntilTheyAreOneGroup(t *testing.T) {
	const owners = 4
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("many", 50, 0, func(m *v1alpha1.CapacityMix) { m.Spec.Selector.MatchLabels = map[string]string{"many": ""} }))
	many := func(t *corev1.PodTemplateSpec) { t.Labels["many"] = "" }
	for i := range owners {
		w.Create(builders.Deployment(fmt.Sprint("one-", i), 1, many, builders.OnNodesWith(cluster.CapacityTypeLabel, "on-demand")))
	}
	w.Controller(testenv.Impatient)
	cm := w.WaitCondition("many", v1alpha1.ConditionGroupsOfOne, true, v1alpha1.ReasonAlwaysOnDemand)
	assert.Contains(t, meta.FindStatusCondition(cm.Status.Conditions, v1alpha1.ConditionGroupsOfOne).Message, "set spec.group: Selector")
	w.WaitCondition("many", v1alpha1.ConditionPinned, true, v1alpha1.ReasonPinnedByPods)

	w.ChangeMix("many", func(m *v1alpha1.CapacityMix) { m.Spec.Group = v1alpha1.PodGroupingSelector })
	cm = w.WaitStatus("many", "one group of all owners", func(s *v1alpha1.CapacityMixStatus) bool {
		return s.WorkloadCount == 1 && meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionGroupsOfOne) == nil
	})
	require.Len(t, cm.Status.Workloads, 1)
	of := cm.Status.Workloads[0]
	assert.Equal(t, v1alpha1.WorkloadMix{Kind: "CapacityMix", Name: "many", Owners: owners, Replicas: owners},
		v1alpha1.WorkloadMix{Kind: of.Kind, Name: of.Name, Owners: of.Owners, Replicas: of.Replicas})
	assert.Equal(t, v1alpha1.ReplicaSplit{Spot: 2, OnDemand: 2}, of.Desired)
}

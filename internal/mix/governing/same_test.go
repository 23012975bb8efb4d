// SPDX-License-Identifier: Apache-2.0

package governing_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/test/builders"
)

func TestAMixWithTheSameGroupsLeavesEachPodInItsGroup(t *testing.T) {
	onSpot := v1alpha1.MixRole{
		Name: "leader", CapacityType: v1alpha1.CapacityTypeSpot,
		Selector: v1alpha1.PodSelector{MatchLabels: map[string]string{"role": "leader"}},
	}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) *v1alpha1.CapacityMix {
			return builders.CapacityMix(rapid.SampledFrom([]string{"web", "web", "other"}).Draw(t, name+" app"),
				rapid.Int32Range(-1, 2).Draw(t, name+" percent"), 0, func(cm *v1alpha1.CapacityMix) {
					cm.Namespace, cm.Name = "shop", "mix"
					cm.Spec.Group = rapid.SampledFrom([]v1alpha1.PodGrouping{"", v1alpha1.PodGroupingSelector}).Draw(t, name+" group")
					if rapid.Bool().Draw(t, name+" unit") {
						cm.Spec.Unit = &v1alpha1.PodUnit{Type: v1alpha1.PodUnitLabel, LabelKey: "unit"}
					}
					if rapid.Bool().Draw(t, name+" role") {
						cm.Spec.Roles = []v1alpha1.MixRole{onSpot}
					}
				})
		}
		before, after := draw("before"), draw("after")
		if !governing.SameGroups(before, after) {
			return
		}
		pod := labeled(map[string]string{"app": "web", "unit": "a", "role": rapid.SampledFrom([]string{"leader", "worker"}).Draw(t, "role")},
			ownedBy("Fleet", "example.com/v1", "fleet")...)
		member := func(cm *v1alpha1.CapacityMix) governing.Member {
			r := &governing.Resolver{Mixes: governing.NewRegistry(), Controllers: known{}}
			require.NoError(t, r.Mixes.Set(cm))
			m, _ := r.Resolve(pod)
			member, _ := r.Member(pod, m)
			return member
		}
		require.Equal(t, member(before), member(after))
	})
}

func TestAnotherPercentageLeavesTheGroupsAsTheyAre(t *testing.T) {
	before, after := builders.CapacityMix("web", 50, 0), builders.CapacityMix("web", 70, 2)
	assert.True(t, governing.SameGroups(before, after))
	builders.MaxPerZone(2)(after)
	builders.ProtectFloor(after)
	assert.True(t, governing.SameGroups(before, after))
	builders.AvoidInterrupted(after)
	after.Spec.DeletionCost = v1alpha1.DeletionCostsRespect
	assert.True(t, governing.SameGroups(before, after))
	after.UID = "another one"
	assert.False(t, governing.SameGroups(before, after))
}

func TestAnnotationsHaveTheSameMixUnlessAValueOfItDiffers(t *testing.T) {
	conventions := governing.Conventions{Prefixes: []string{governing.PrefixBerth, governing.PrefixSpotalis}}
	all := map[string]string{
		v1alpha1.SpotPercentAnnotation: "50", v1alpha1.MinOnDemandAnnotation: "1", v1alpha1.GroupAnnotation: "api",
		"spotalis.io/spot-percentage": "50", "spotalis.io/min-on-demand": "1",
	}
	with := func(key, value string) map[string]string {
		changed := map[string]string{key: value}
		for k, v := range all {
			if k != key {
				changed[k] = v
			}
		}
		return changed
	}
	assert.True(t, conventions.SameMix(all, with("deployment.kubernetes.io/desired-replicas", "7")))
	for key := range all {
		assert.False(t, conventions.SameMix(all, with(key, "7")), key)
		assert.False(t, conventions.SameMix(map[string]string{key: ""}, nil), key)
	}
	conventions.Prefixes = conventions.Prefixes[:1]
	assert.True(t, conventions.SameMix(all, with("spotalis.io/min-on-demand", "7")), "it is not read")
}

// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

// The database is on on-demand nodes, the rest is mixed by the environment, or by the configuration.
func TestMixes(t *testing.T) {
	placed := func(p v1alpha1.EnvironmentPlacement) func(*Input) {
		return specOf(func(s *v1alpha1.EnvironmentSpec) { s.Placement = &p })
	}
	type mix struct{ percent, least int32 }
	mixes := func(database, rest mix) map[string]mix {
		return map[string]mix{stack.Database: database, stack.Backend: rest, stack.Frontend: rest, "redis-cache": rest}
	}
	none := mixes(mix{}, mix{50, 1})
	delete(none, stack.Database)
	for name, c := range map[string]struct {
		change func(*Input)
		want   map[string]mix // by component
	}{
		"by default": {func(*Input) {}, mixes(mix{0, 1}, mix{50, 1})},
		"as configured": {
			placed(v1alpha1.EnvironmentPlacement{SpotPercent: new(int32(80)), MinOnDemand: new(int32(0))}), mixes(mix{0, 1}, mix{80, 0}),
		},
		"nothing on spot":          {placed(v1alpha1.EnvironmentPlacement{SpotPercent: new(int32(0))}), mixes(mix{0, 1}, mix{0, 1})},
		"the database as the rest": {placed(v1alpha1.EnvironmentPlacement{DatabaseOnSpot: true}), mixes(mix{50, 1}, mix{50, 1})},
		"without a database":       {specOf(func(s *v1alpha1.EnvironmentSpec) { s.Stack.Database = nil }), none},
		"another scheduler":        {func(in *Input) { in.Settings.SchedulerName = "" }, map[string]mix{}},
	} {
		t.Run(name, func(t *testing.T) {
			list := Render(input(t, c.change))
			got := map[string]mix{}
			for component, template := range templatesOf(list) {
				for _, m := range of[*v1alpha1.CapacityMix](list) {
					if selected(&m.Spec.Selector, template.Labels) {
						assert.NotContains(t, got, component, "two mixes for one pod")
						got[component] = mix{m.Spec.SpotPercent, m.Spec.MinOnDemand}
					}
				}
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func selected(s *v1alpha1.PodSelector, labels map[string]string) bool {
	for key, value := range s.MatchLabels {
		if labels[key] != value {
			return false
		}
	}
	for _, r := range s.MatchExpressions {
		for _, v := range r.Values {
			if r.Operator != v1alpha1.PodSelectorOpNotIn || labels[r.Key] == v {
				return false
			}
		}
	}
	return true
}

// Whatever the spec has, no pod has two mixes, and each has one that this scheduler places.
func TestMixesSelectDisjointPods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		list := Render(in)
		want := 1
		if in.Settings.SchedulerName == "" {
			want = 0
		}
		for component, template := range templatesOf(list) {
			n := 0
			for _, m := range of[*v1alpha1.CapacityMix](list) {
				if selected(&m.Spec.Selector, template.Labels) {
					n++
				}
			}
			assert.Equal(t, want, n, component)
			limit := template.Labels[v1alpha1.ResourceLimitLabel]
			assert.Equal(t, limit != "", slices.Contains(names[*v1alpha1.ResourceLimit](list), component))
		}
	})
}

// A component with requests has a limit of them, and its pods report it.
func TestSizes(t *testing.T) {
	list := Render(input(t))
	assert.Equal(t, []string{stack.Database, stack.Backend}, names[*v1alpha1.ResourceLimit](list))
	limit := one[*v1alpha1.ResourceLimit](t, list, stack.Backend).Spec
	assert.Equal(t, []string{"500m", "512Mi", "2Gi"}, []string{limit.CPU.String(), limit.Memory.String(), limit.EphemeralStorage.String()})
	assert.Nil(t, one[*v1alpha1.ResourceLimit](t, list, stack.Database).Spec.EphemeralStorage, "it is the size of its volume")

	alone := Render(input(t, func(in *Input) { in.Settings.SchedulerName = "" }))
	assert.Empty(t, of[*v1alpha1.ResourceLimit](alone))
	for _, template := range templatesOf(alone) {
		assert.NotContains(t, template.Labels, v1alpha1.ResourceLimitLabel)
	}
}

// An environment with a namespace of its own is bounded, and one that shares its namespace does not bound the others in it.
func TestBounds(t *testing.T) {
	quota := corev1.ResourceList{corev1.ResourceLimitsCPU: resource.MustParse("8")}
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}
	bounded := func(in *Input) { in.Settings.Quota, in.Settings.DefaultLimits = quota, limits }
	in := input(t, bounded)
	wellRendered(t, in)
	list := Render(in)
	assert.Equal(t, quota, one[*corev1.ResourceQuota](t, list, "environment").Spec.Hard)
	assert.Equal(t, []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Default: limits, DefaultRequest: limits}},
		one[*corev1.LimitRange](t, list, "environment").Spec.Limits)
	assert.IsType(t, &corev1.ResourceQuota{}, list[0], "before what it bounds")

	for _, list := range [][]string{
		boundsOf(t, bounded, func(in *Input) { in.Own = false }), boundsOf(t),
	} {
		assert.Empty(t, list)
	}
}

func boundsOf(t *testing.T, change ...func(*Input)) []string {
	t.Helper()
	list := Render(input(t, change...))
	return append(names[*corev1.ResourceQuota](list), names[*corev1.LimitRange](list)...)
}

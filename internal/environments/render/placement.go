// SPDX-License-Identifier: Apache-2.0

package render

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

// defaultMinOnDemand keeps one replica of each component where it is safe.
const defaultMinOnDemand = 1

// mixes set on which capacity type the pods run: the database on on-demand nodes unless its spec allows spot, the rest by the mix of
// the environment, each component by itself.
func (in *Input) mixes(components []stack.Component) (out []runtime.Object) {
	if in.Settings.SchedulerName == "" {
		return nil
	}
	percent, least, free := in.Settings.SpotPercent, int32(defaultMinOnDemand), false
	if p := in.Environment.Spec.Placement; p != nil {
		percent, least, free = ptr.Deref(p.SpotPercent, percent), ptr.Deref(p.MinOnDemand, least), p.DatabaseOnSpot
	}
	rest := in.mix("environment", percent, least)
	if p := in.Environment.Spec.Placement; p != nil && p.Colocation == v1alpha1.ColocationSameZone {
		// By default spot replicas are spread over zones and instance types. Nodes of one domain are all as good.
		rest.Spec.SpreadSpotOver = []string{corev1.LabelOSStable}
	}
	if stack.Find(components, stack.Database) != nil && !free {
		safe := in.mix(stack.Database, 0, 1)
		safe.Spec.Selector.MatchLabels = in.selects(stack.Database)
		out = append(out, safe)
		rest.Spec.Selector.MatchExpressions = []v1alpha1.PodSelectorRequirement{
			{Key: v1alpha1.EnvironmentComponentLabel, Operator: v1alpha1.PodSelectorOpNotIn, Values: []string{stack.Database}},
		}
	}
	return append(out, rest)
}

func (in *Input) mix(name string, percent, least int32) *v1alpha1.CapacityMix {
	return &v1alpha1.CapacityMix{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "CapacityMix"}, ObjectMeta: in.meta(name, ""),
		Spec: v1alpha1.CapacityMixSpec{
			Selector:    v1alpha1.PodSelector{MatchLabels: map[string]string{v1alpha1.EnvironmentLabel: in.Environment.Name}},
			SpotPercent: percent, MinOnDemand: least,
		},
	}
}

// size is the ResourceLimit of a component with requests.
func (in *Input) size(c *stack.Component) []runtime.Object {
	if in.Settings.SchedulerName == "" {
		return nil
	}
	requests := in.requests(c)
	if len(requests) == 0 {
		return nil
	}
	limit := &v1alpha1.ResourceLimit{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ResourceLimit"}, ObjectMeta: in.meta(c.Name,
			c.Name),
		Spec: v1alpha1.ResourceLimitSpec{Description: "the component " + c.Name + " of environment " + in.Environment.Name},
	}
	for name, to := range map[corev1.ResourceName]**resource.Quantity{
		corev1.ResourceCPU:              &limit.Spec.CPU,
		corev1.ResourceMemory:           &limit.Spec.Memory,
		corev1.ResourceEphemeralStorage: &limit.Spec.EphemeralStorage,
	} {
		if q, is := requests[name]; is {
			*to = &q
		}
	}
	return []runtime.Object{limit}
}

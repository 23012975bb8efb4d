// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"strings"

	"berth.dev/berth/apis/v1alpha1"
)

// maxName is the length of the name of an object.
const maxName = 253

// Name names the mixes of suggestions after their workloads, unless the name is taken in the namespace. taken has names by namespace.
func Name(all []Suggestion, taken map[[2]string]bool) {
	for i := range all {
		s := &all[i]
		if s.part() != 0 {
			continue
		}
		base := strings.ToLower(s.Name)
		name := base
		for _, suffix := range []string{"", "-" + strings.ToLower(s.Kind), "-suggested"} {
			name = base[:min(len(base), maxName-len(suffix))] + suffix
			if !taken[[2]string{s.Namespace, name}] {
				break
			}
		}
		taken[[2]string{s.Namespace, name}] = true
		s.MixName = name
	}
}

// CapacityMix is the mix of a suggestion to adopt.
func (s *Suggestion) CapacityMix() *v1alpha1.CapacityMix {
	m := &v1alpha1.CapacityMix{}
	m.APIVersion, m.Kind = v1alpha1.SchemeGroupVersion.String(), "CapacityMix"
	m.Namespace, m.Name = s.Namespace, s.MixName
	m.Spec = v1alpha1.CapacityMixSpec{
		Selector: podSelector(s.Selector), SpotPercent: s.Mix.SpotPercent, MinOnDemand: s.Mix.MinOnDemand, MaxSpot: s.Mix.MaxSpot,
	}
	if s.Mix.Strategy != "" {
		m.Spec.Rebalance = &v1alpha1.RebalanceSpec{Strategy: v1alpha1.RebalanceStrategy(s.Mix.Strategy)}
	}
	return m
}

// podSelector is a selector in the type of a mix.
func podSelector(s *Selector) (p v1alpha1.PodSelector) {
	p.MatchLabels = s.MatchLabels
	for _, e := range s.MatchExpressions {
		p.MatchExpressions = append(p.MatchExpressions, v1alpha1.PodSelectorRequirement{
			Key: e.Key, Operator: v1alpha1.PodSelectorOperator(e.Operator), Values: e.Values,
		})
	}
	return p
}

// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

// The database is first in its zone, and the rest follows it.
func TestColocation(t *testing.T) {
	type want struct{ zone, follows string } // of a component
	placed := func(colocation v1alpha1.EnvironmentColocation, zone string) func(*Input) {
		return specOf(func(s *v1alpha1.EnvironmentSpec) {
			s.Placement = &v1alpha1.EnvironmentPlacement{Colocation: colocation, PreferredZone: zone}
		})
	}
	noDatabase := specOf(func(s *v1alpha1.EnvironmentSpec) { s.Stack.Database = nil })
	for name, c := range map[string]struct {
		change            []func(*Input)
		database, backend want
	}{
		"by default":             {nil, want{}, want{}},
		"no preference":          {[]func(*Input){placed("", "")}, want{}, want{}},
		"one zone":               {[]func(*Input){placed("SameZone", "")}, want{}, want{"", stack.Database}},
		"one zone, and which":    {[]func(*Input){placed("SameZone", "b")}, want{"b", ""}, want{"", stack.Database}},
		"a zone for each":        {[]func(*Input){placed("None", "b")}, want{"b", ""}, want{"b", ""}},
		"without a database":     {[]func(*Input){placed("SameZone", ""), noDatabase}, want{}, want{"", "*"}},
		"the zone of the others": {[]func(*Input){placed("SameZone", "b"), noDatabase}, want{}, want{"b", "*"}},
	} {
		t.Run(name, func(t *testing.T) {
			list := Render(input(t, c.change...))
			templates := templatesOf(list)
			for _, m := range of[*v1alpha1.CapacityMix](list) {
				apart := m.Name != "environment" || c.backend.follows == ""
				assert.Equal(t, apart, m.Spec.SpreadSpotOver == nil, "the mix %s spreads spot replicas over zones", m.Name)
			}
			for component, template := range templates {
				constraints := template.Spec.TopologySpreadConstraints
				assert.Equal(t, c.backend.follows == "", len(constraints) == 0, "the default constraints of %s spread over zones", component)
			}
			for component, wanted := range map[string]want{stack.Database: c.database, stack.Backend: c.backend} {
				template, exists := templates[component]
				if !exists {
					continue
				}
				got := want{}
				if a := template.Spec.Affinity; a != nil {
					if n := a.NodeAffinity; n != nil {
						assert.Nil(t, n.RequiredDuringSchedulingIgnoredDuringExecution)
						got.zone = n.PreferredDuringSchedulingIgnoredDuringExecution[0].Preference.MatchExpressions[0].Values[0]
					}
					if p := a.PodAffinity; p != nil {
						assert.Nil(t, p.RequiredDuringSchedulingIgnoredDuringExecution)
						term := p.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm
						assert.Equal(t, corev1.LabelTopologyZone, term.TopologyKey)
						got.follows = term.LabelSelector.MatchLabels[v1alpha1.EnvironmentComponentLabel]
						if got.follows == "" {
							got.follows = "*"
						}
					}
				}
				assert.Equal(t, wanted, got, component)
			}
		})
	}
}

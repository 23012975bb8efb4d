// SPDX-License-Identifier: Apache-2.0

package derive

import (
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/sim/scenario"
)

// ruleKey identifies a CapacityMix, or a role of one.
type ruleKey struct {
	types.NamespacedName
	role string
}

// govern finds the mix of each workload, as the scheduler does for its pods.
func (d *deriver) govern() {
	groups := map[types.NamespacedName]int{}
	for _, w := range d.workloads {
		m, invalid := d.resolver.Resolve(w.like())
		w.mix = m
		if len(invalid) > 0 {
			d.notes.add(invalidAnnotations, w.title())
		}
		if m != nil && m.Grouping.By == governing.BySelector {
			key := types.NamespacedName{Namespace: w.namespace, Name: m.CapacityMix()}
			if groups[key]++; groups[key] == 2 {
				d.notes.add(sharedMixes, key.String())
			}
		}
	}
}

// mix returns the mix of a workload as the scenario has it, nil for none.
func (d *deriver) mix(w *workload) *v1alpha1.CapacityMixSpec {
	m := w.mix
	if m == nil {
		return nil
	}
	if m.Grouping.By == governing.ByName {
		d.notes.add(namedGroups, w.title())
	}
	if m.Window != nil {
		d.notes.add(windows, w.title())
	}
	if m.RoleName != "" {
		d.notes.add(roles, w.title())
	}
	if m.Unit.By == governing.UnitByLabel || m.Unit.By == governing.UnitBySchedulingGroup ||
		m.Unit.By == governing.UnitByDefault && m.Grouping.By != governing.ByController && governing.SetOf(w.like()) != nil {
		d.notes.add(units, w.title())
	}
	name := m.CapacityMix()
	if name == "" {
		return annotated(m)
	}
	key := ruleKey{types.NamespacedName{Namespace: w.namespace, Name: name}, m.RoleName}
	spec, known := d.specs[key]
	if !known {
		spec = d.spec(key, m)
		d.specs[key] = spec
	}
	return spec
}

// annotated is the mix in annotations.
func annotated(m *governing.Mix) *v1alpha1.CapacityMixSpec {
	spec := &v1alpha1.CapacityMixSpec{SpotPercent: m.Mix.SpotPercent, MinOnDemand: m.Mix.MinOnDemand}
	switch m.Grouping.By { //nolint:exhaustive // the others are the default, or not in annotations
	case governing.ByController:
		spec.Group = v1alpha1.PodGroupingController
	case governing.ByTop:
		spec.Group = v1alpha1.PodGroupingTop
	}
	return spec
}

// spec is that of a CapacityMix without what a scenario refuses, nil where it is not valid.
func (d *deriver) spec(key ruleKey, m *governing.Mix) *v1alpha1.CapacityMixSpec {
	of := d.mixes[key.NamespacedName].Spec
	spec := of.DeepCopy()
	if m.RoleName != "" {
		spec.SpotPercent, spec.MinOnDemand, spec.MaxSpot = m.Mix.SpotPercent, 0, nil
	}
	if spec.Tolerations != nil && m.RoleName == "" {
		d.notes.add(tolerations, key.String())
	}
	spec.Selector, spec.Roles, spec.Unit, spec.Tolerations = v1alpha1.PodSelector{}, nil, nil, nil
	if r := spec.Rebalance; r != nil && len(r.Windows) > 0 {
		if m.RoleName == "" {
			d.notes.add(windows, key.String())
		}
		r.Windows = nil
	}
	if !isValid(spec) {
		d.notes.add(invalidMixes, key.String())
		return nil
	}
	return spec
}

// isValid reports whether a scenario may have a mix. The API server does not refuse what it stored under older rules.
func isValid(spec *v1alpha1.CapacityMixSpec) bool {
	return len(scenario.ValidateMixes(&scenario.Scenario{Workloads: []scenario.Workload{{Mix: spec}}})) == 0
}

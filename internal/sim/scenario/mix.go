// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

const (
	maxSpreadKeys, maxPerDomain    = 4, 4
	maxConcurrent, maxMovesPerHour = 100, 1000
	maxSpotWait, maxStabilization  = 86_400, 86_400
)

// ValidateMixes validates the mixes of a scenario that is valid but for what a program changed in them.
func ValidateMixes(s *Scenario) field.ErrorList {
	v := &validator{s: s, d: &decoder{lines: map[string]int{}}}
	for i := range s.Workloads {
		if mix, path := s.Workloads[i].Mix, workloadPath(i).Child("mix"); mix != nil {
			v.d.lines[path.Child("spotPercent").String()] = 0
			v.mix(path, mix)
		}
	}
	return v.errs
}

// mix validates the spec of a CapacityMix as the API server does. What has no effect in a simulation is refused.
func (v *validator) mix(path *field.Path, m *v1alpha1.CapacityMixSpec) {
	before := len(v.errs)
	v.notSimulated(path, m)
	if v.required(path.Child("spotPercent"), "want the percentage of replicas on spot nodes") {
		v.number(path.Child("spotPercent"), m.SpotPercent, 0, 100)
	}
	v.number(path.Child("minOnDemand"), m.MinOnDemand, 0, split.MaxBound)
	v.optional(path.Child("maxSpot"), m.MaxSpot, 0, split.MaxBound)
	v.optional(path.Child("spotWaitSeconds"), m.SpotWaitSeconds, 0, maxSpotWait)
	if w := m.SpotWaitSeconds; w != nil && *w > 0 && m.WhenSpotUnavailable == v1alpha1.WhenSpotUnavailableWait {
		v.report(field.Invalid(path.Child("spotWaitSeconds"), *w, "has no effect with whenSpotUnavailable Wait: remove it or use OnDemand"))
	}
	enum(v, path.Child("group"), m.Group, v1alpha1.PodGroupingController, v1alpha1.PodGroupingSelector, v1alpha1.PodGroupingTop)
	enum(v, path.Child("whenSpotUnavailable"), m.WhenSpotUnavailable, v1alpha1.WhenSpotUnavailableOnDemand, v1alpha1.WhenSpotUnavailableWait)
	enum(v, path.Child("whenOnDemandUnavailable"), m.WhenOnDemandUnavailable,
		v1alpha1.WhenOnDemandUnavailableWait, v1alpha1.WhenOnDemandUnavailableSpot)
	enum(v, path.Child("whenDomainInterrupted"), m.WhenDomainInterrupted,
		v1alpha1.WhenDomainInterruptedScheduleAnyway, v1alpha1.WhenDomainInterruptedDoNotSchedule)
	enum(v, path.Child("deletionCost"), m.DeletionCost, v1alpha1.DeletionCostsEnforce, v1alpha1.DeletionCostsRespect)
	v.spread(path.Child("spreadSpotOver"), m.SpreadSpotOver)
	v.domains(path.Child("maxPerDomain"), m.MaxPerDomain)
	if m.Rebalance != nil {
		v.rebalance(path.Child("rebalance"), m.Rebalance)
	}
	if len(v.errs) > before {
		return
	}
	if _, _, err := governing.FromCapacityMix(&v1alpha1.CapacityMix{Spec: *m}); err != nil {
		v.report(field.Invalid(path, "…", err.Error()))
	}
}

// notSimulated reports the fields that have no meaning here. The pods of a scenario have no labels, and its nodes no taints.
func (v *validator) notSimulated(path *field.Path, m *v1alpha1.CapacityMixSpec) {
	for name, set := range map[string]bool{
		"selector": len(m.Selector.MatchLabels)+len(m.Selector.MatchExpressions) > 0,
		"unit":     m.Unit != nil, "roles": len(m.Roles) > 0, "tolerations": m.Tolerations != nil,
	} {
		if set {
			v.report(field.Forbidden(path.Child(name), "a simulation has no use for it: the mix is of the workload that has it"))
		}
	}
	if m.Rebalance != nil && len(m.Rebalance.Windows) > 0 {
		v.report(field.Forbidden(path.Child("rebalance", "windows"), "a simulation has no date"))
	}
}

func (v *validator) optional(path *field.Path, n *int32, least, most int32) {
	if n != nil {
		v.number(path, *n, least, most)
	}
}

// enum reports a value that is not one of those allowed. Empty is the default.
func enum[T ~string](v *validator, path *field.Path, value T, allowed ...T) {
	if value != "" && !slices.Contains(allowed, value) {
		v.report(field.NotSupported(path, T(short(string(value))), allowed))
	}
}

func (v *validator) labelKey(path *field.Path, key string) {
	if key == "" {
		v.report(field.Required(path, "want the key of a node label"))
		return
	}
	v.errs = append(v.errs, metav1validation.ValidateLabelName(key, path)...)
}

func (v *validator) spread(path *field.Path, keys []string) {
	if v.d.set(path) && len(keys) == 0 {
		v.report(field.Required(path, "want 1 to 4 keys of node labels, or no field for the default"))
	}
	if n := len(keys); n > maxSpreadKeys {
		v.report(field.TooMany(path, n, maxSpreadKeys))
		return
	}
	for i, key := range keys {
		v.labelKey(path.Index(i), key)
		if slices.Contains(keys[:i], key) {
			v.report(field.Duplicate(path.Index(i), short(key)))
		}
	}
}

func (v *validator) domains(path *field.Path, limits []v1alpha1.DomainLimit) {
	if n := len(limits); n > maxPerDomain {
		v.report(field.TooMany(path, n, maxPerDomain))
		return
	}
	for i := range limits {
		l, at := &limits[i], path.Index(i)
		v.labelKey(at.Child("topologyKey"), l.TopologyKey)
		if slices.ContainsFunc(limits[:i], func(o v1alpha1.DomainLimit) bool { return o.TopologyKey == l.TopologyKey }) {
			v.report(field.Duplicate(at.Child("topologyKey"), short(l.TopologyKey)))
		}
		if (l.MaxPercent == nil) == (l.MaxCount == nil) {
			v.report(field.Required(at, "want either maxPercent or maxCount"))
		}
		v.optional(at.Child("maxPercent"), l.MaxPercent, 1, 100)
		v.optional(at.Child("maxCount"), l.MaxCount, 1, split.MaxBound)
		enum(v, at.Child("whenUnsatisfiable"), l.WhenUnsatisfiable, v1alpha1.WhenDomainFullDoNotSchedule, v1alpha1.WhenDomainFullScheduleAnyway)
	}
}

func (v *validator) rebalance(path *field.Path, r *v1alpha1.RebalanceSpec) {
	enum(v, path.Child("mode"), r.Mode, v1alpha1.RebalanceModeEvict, v1alpha1.RebalanceModeReport, v1alpha1.RebalanceModeOff)
	v.optional(path.Child("maxConcurrent"), r.MaxConcurrent, 1, maxConcurrent)
	v.optional(path.Child("maxMovesPerHour"), r.MaxMovesPerHour, 1, maxMovesPerHour)
	v.optional(path.Child("stabilizationSeconds"), r.StabilizationSeconds, 0, maxStabilization)
	enum(v, path.Child("provisioning"), r.Provisioning, v1alpha1.ProvisioningWait, v1alpha1.ProvisioningPlaceholder)
	enum(v, path.Child("strategy"), r.Strategy,
		v1alpha1.RebalanceStrategyEvict, v1alpha1.RebalanceStrategySurge, v1alpha1.RebalanceStrategySurgeOrEvict)
}

// SPDX-License-Identifier: Apache-2.0

package governing

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/domains"
	"berth.dev/berth/internal/mix/split"
)

// maxSpreadKeys is the maximum number of node labels that identify an interruption domain.
const maxSpreadKeys = 4

// FromCapacityMix converts a CapacityMix. The API server rejects invalid objects too, but objects that were stored
// under older rules can be invalid.
func FromCapacityMix(cm *v1alpha1.CapacityMix) (Mix, labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(cm.Spec.Selector.AsLabelSelector())
	if err != nil {
		return Mix{}, nil, fmt.Errorf("spec.selector: %w", err)
	}
	m := split.Mix{SpotPercent: cm.Spec.SpotPercent, MinOnDemand: cm.Spec.MinOnDemand, MaxSpot: MaxSpot(cm.Spec.MaxSpot)}
	if err := m.Validate(); err != nil {
		return Mix{}, nil, fmt.Errorf("spec.%w", err)
	}
	if s := cm.Spec.SpotWaitSeconds; s != nil && *s < 0 {
		return Mix{}, nil, fmt.Errorf("spec.spotWaitSeconds: %d is negative", *s)
	}
	if n := len(cm.Spec.SpreadSpotOver); n > maxSpreadKeys {
		return Mix{}, nil, fmt.Errorf("spec.spreadSpotOver: %d label keys are more than %d", n, maxSpreadKeys)
	}
	limits, err := limitsOf(cm.Spec.MaxPerDomain)
	if err != nil {
		return Mix{}, nil, err
	}
	wait, gated := SpotWaits(cm.Spec.SpotWaitSeconds)
	var byType map[capacity.Type][]corev1.Toleration
	if t := cm.Spec.Tolerations; t != nil {
		byType = map[capacity.Type][]corev1.Toleration{capacity.Spot: tolerations(t.Spot), capacity.OnDemand: tolerations(t.OnDemand)}
	}
	governs := Mix{
		UID:            cm.UID,
		Grouping:       Grouping{By: groupings[cm.Spec.Group]},
		Unit:           unitOf(cm.Spec.Unit),
		Source:         SourceCapacityMix + cm.Name,
		Mix:            m,
		BorrowOnDemand: cm.Spec.WhenSpotUnavailable != v1alpha1.WhenSpotUnavailableWait,
		SpotWait:       wait,
		GatedSpotWait:  gated,
		Tolerations:    byType,
		BorrowSpot:     cm.Spec.WhenOnDemandUnavailable == v1alpha1.WhenOnDemandUnavailableSpot,
		SpreadSpotOver: cm.Spec.SpreadSpotOver,
		MaxPerDomain:   limits,
		RespectCosts:   cm.Spec.DeletionCost == v1alpha1.DeletionCostsRespect,
		ProtectFloor:   cm.Spec.ProtectFloor,

		AvoidInterrupted: cm.Spec.WhenDomainInterrupted == v1alpha1.WhenDomainInterruptedDoNotSchedule,
	}
	if r := cm.Spec.Rebalance; r != nil {
		governs.Strategy = r.Strategy
	}
	if governs.Roles, err = rolesOf(&governs, cm.Spec.Roles); err != nil {
		return Mix{}, nil, err
	}
	return governs, selector, nil
}

// SameGroups reports whether a change of a CapacityMix leaves its pods in the groups and units that they are in.
func SameGroups(before, after *v1alpha1.CapacityMix) bool {
	_, _, wasInvalid := FromCapacityMix(before)
	_, _, isInvalid := FromCapacityMix(after)
	return before.UID == after.UID && wasInvalid == nil && isInvalid == nil &&
		equality.Semantic.DeepEqual(grouping(before.Spec), grouping(after.Spec))
}

// grouping is a spec without the fields on which no group and no unit depends.
func grouping(s v1alpha1.CapacityMixSpec) v1alpha1.CapacityMixSpec {
	s.SpotPercent, s.MinOnDemand, s.MaxSpot = 0, 0, nil
	s.WhenSpotUnavailable, s.SpotWaitSeconds, s.WhenOnDemandUnavailable = "", nil, ""
	s.SpreadSpotOver, s.MaxPerDomain, s.ProtectFloor, s.Tolerations, s.Rebalance = nil, nil, false, nil, nil
	s.DeletionCost, s.WhenDomainInterrupted = "", ""
	return s
}

func limitsOf(all []v1alpha1.DomainLimit) (list []domains.Limit, err error) {
	if n := len(all); n > domains.MaxLimits {
		return nil, fmt.Errorf("spec.maxPerDomain: %d limits are more than %d", n, domains.MaxLimits)
	}
	for i := range all {
		l := &all[i]
		limit := domains.Limit{
			Key: l.TopologyKey, Percent: ptr.Deref(l.MaxPercent, 0), Count: ptr.Deref(l.MaxCount, 0),
			Soft: l.WhenUnsatisfiable == v1alpha1.WhenDomainFullScheduleAnyway,
		}
		if err := limit.Validate(); err != nil {
			return nil, fmt.Errorf("spec.maxPerDomain[%d]: %w", i, err)
		}
		list = append(list, limit)
	}
	return list, nil
}

func unitOf(u *v1alpha1.PodUnit) Unit {
	switch {
	case u == nil:
		return Unit{}
	case u.Type == v1alpha1.PodUnitLabel:
		return Unit{By: UnitByLabel, Label: u.LabelKey}
	case u.Type == v1alpha1.PodUnitSchedulingGroup:
		return Unit{By: UnitBySchedulingGroup}
	}
	return Unit{By: UnitIsPod}
}

// maxRoles is the maximum number of roles of a mix.
const maxRoles = 8

// rolesOf converts the roles of a mix. Of what a role has no rule for, the mix is its own.
func rolesOf(m *Mix, roles []v1alpha1.MixRole) (list []Role, err error) {
	if n := len(roles); n > maxRoles {
		return nil, fmt.Errorf("spec.roles: %d roles are more than %d", n, maxRoles)
	}
	for i := range roles {
		r := &roles[i]
		selector, err := metav1.LabelSelectorAsSelector(r.Selector.AsLabelSelector())
		if err != nil {
			return nil, fmt.Errorf("spec.roles[%d].selector: %w", i, err)
		}
		of := *m
		of.RoleName, of.Mix = r.Name, split.New(0, 0)
		if r.CapacityType == v1alpha1.CapacityTypeSpot {
			of.Mix.SpotPercent = 100
		}
		list = append(list, Role{Name: r.Name, Mix: &of, selects: budget.CompileSelector(selector).Matches})
	}
	return list, nil
}

func tolerations(all []v1alpha1.Toleration) []corev1.Toleration {
	var out []corev1.Toleration
	for _, t := range all {
		out = append(out, corev1.Toleration(t))
	}
	return out
}

// compares reports whether a toleration compares numbers.
func compares(t corev1.Toleration) bool {
	return t.Operator == corev1.TolerationOpGt || t.Operator == corev1.TolerationOpLt
}

// Ignored returns the taints of a mix's tolerations that a store drops, as key and operator.
func (s *Registry) Ignored(cm *v1alpha1.CapacityMix) (taints []string) {
	if s.Comparison || cm.Spec.Tolerations == nil {
		return nil
	}
	for _, t := range slices.Concat(cm.Spec.Tolerations.Spot, cm.Spec.Tolerations.OnDemand) {
		if compares(corev1.Toleration(t)) {
			taints = append(taints, t.Key+" "+string(t.Operator)+" "+t.Value)
		}
	}
	return taints
}

// MaxSpot converts an optional upper bound to Mix.MaxSpot.
func MaxSpot(bound *int32) int32 {
	if bound == nil {
		return split.NoMax
	}
	return *bound
}

// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// unset is the value that removes a field from the mixes.
const unset = "unset"

// Field is a field of a mix that a sweep can set.
type Field struct {
	// Name is that in the spec of a CapacityMix.
	Name string
	// Values are examples.
	Values string
	parse  func(text string) (func(*v1alpha1.CapacityMixSpec), error)
}

type mix = v1alpha1.CapacityMixSpec

// Fields are those that can be set.
var Fields = []Field{
	{"spotPercent", "50,70,90", number(func(m *mix, n int32) { m.SpotPercent = n })},
	{"minOnDemand", "0,2", number(func(m *mix, n int32) { m.MinOnDemand = n })},
	{"maxSpot", "10,unset", orUnset(func(m *mix) { m.MaxSpot = nil }, number(func(m *mix, n int32) { m.MaxSpot = &n }))},
	{"maxPerDomain", "25%,zone:3,zone:50%+instanceType:5,unset", orUnset(func(m *mix) { m.MaxPerDomain = nil }, limits)},
	{"spreadSpotOver", "zone,zone+instanceType,unset", orUnset(func(m *mix) { m.SpreadSpotOver = nil }, spread)},
	{"spotWaitSeconds", "0,900,unset", orUnset(func(m *mix) { m.SpotWaitSeconds = nil }, number(func(m *mix, n int32) { m.SpotWaitSeconds = &n }))},
	{"rebalance.strategy", "Evict,Surge,unset", oneOf(func(m *mix, s v1alpha1.RebalanceStrategy) { rebalance(m).Strategy = s },
		v1alpha1.RebalanceStrategyEvict, v1alpha1.RebalanceStrategySurge, v1alpha1.RebalanceStrategySurgeOrEvict)},
	{"rebalance.provisioning", "Wait,Placeholder,unset", oneOf(func(m *mix, p v1alpha1.Provisioning) { rebalance(m).Provisioning = p },
		v1alpha1.ProvisioningWait, v1alpha1.ProvisioningPlaceholder)},
}

func rebalance(m *mix) *v1alpha1.RebalanceSpec {
	if m.Rebalance == nil {
		m.Rebalance = &v1alpha1.RebalanceSpec{}
	}
	return m.Rebalance
}

// wholeNumber is a number in the notation of strconv.Itoa, so that the rows of the results have one notation.
func wholeNumber(text string) (int32, bool) {
	n, err := strconv.ParseInt(text, 10, 32)
	return int32(n), err == nil && strconv.FormatInt(n, 10) == text
}

func number(set func(*mix, int32)) func(string) (func(*mix), error) {
	return func(text string) (func(*mix), error) {
		n, ok := wholeNumber(text)
		if !ok {
			return nil, errors.New("want a whole number")
		}
		return func(m *mix) { set(m, n) }, nil
	}
}

func orUnset(remove func(*mix), parse func(string) (func(*mix), error)) func(string) (func(*mix), error) {
	return func(text string) (func(*mix), error) {
		if text == unset {
			return remove, nil
		}
		set, err := parse(text)
		if err != nil {
			return nil, errors.New(err.Error() + ", or " + unset)
		}
		return set, nil
	}
}

func oneOf[T ~string](set func(*mix, T), allowed ...T) func(string) (func(*mix), error) {
	return orUnset(func(m *mix) { set(m, "") }, func(text string) (func(*mix), error) {
		if !slices.Contains(allowed, T(text)) {
			names := make([]string, len(allowed))
			for i, name := range allowed {
				names[i] = string(name)
			}
			return nil, errors.New("want " + strings.Join(names, ", "))
		}
		return func(m *mix) { set(m, T(text)) }, nil
	})
}

// labelKey is the key of a label of nodes: zone and instanceType are the fields of a node pool.
func labelKey(text string) string {
	switch text {
	case "zone":
		return corev1.LabelTopologyZone
	case "instanceType":
		return corev1.LabelInstanceTypeStable
	}
	return text
}

// spread is a list of keys, between plus signs.
func spread(text string) (func(*mix), error) {
	var keys []string
	for key := range strings.SplitSeq(text, "+") {
		if key == "" {
			return nil, errors.New("want zone, instanceType or the key of a node label, several as zone+instanceType")
		}
		keys = append(keys, labelKey(key))
	}
	return func(m *mix) { m.SpreadSpotOver = slices.Clone(keys) }, nil
}

// limits is a list of limits, between plus signs.
func limits(text string) (func(*mix), error) {
	var list []v1alpha1.DomainLimit
	for part := range strings.SplitSeq(text, "+") {
		limit, err := limit(part)
		if err != nil {
			return nil, err
		}
		list = append(list, limit)
	}
	return func(m *mix) {
		set := make([]v1alpha1.DomainLimit, len(list))
		for i := range list {
			list[i].DeepCopyInto(&set[i])
			for _, before := range m.MaxPerDomain {
				if before.TopologyKey == set[i].TopologyKey {
					set[i].WhenUnsatisfiable = before.WhenUnsatisfiable
				}
			}
		}
		m.MaxPerDomain = set
	}, nil
}

// limit is a number or a percentage of replicas, after the key of the domains, which are zones without it.
func limit(text string) (v1alpha1.DomainLimit, error) {
	limit := v1alpha1.DomainLimit{TopologyKey: corev1.LabelTopologyZone}
	key, most, keyed := strings.Cut(text, ":")
	if !keyed {
		most = text
	} else {
		limit.TopologyKey = labelKey(key)
	}
	share, percent := strings.CutSuffix(most, "%")
	n, ok := wholeNumber(share)
	if !ok || limit.TopologyKey == "" {
		return limit, errors.New("want a number or a percentage of replicas for each zone, such as 3 or 25%, or with the label, as instanceType:25%")
	}
	if percent {
		limit.MaxPercent = &n
	} else {
		limit.MaxCount = &n
	}
	return limit, nil
}

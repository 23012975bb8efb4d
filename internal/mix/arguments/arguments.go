// SPDX-License-Identifier: Apache-2.0

// Package arguments converts the scheduler plugin's arguments to the types of the pure packages, so that the scheduler,
// the controller and the command line interpret a configuration in the same way.
package arguments

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
)

// NodeRules returns the configured rules and, unless they are off, the shipped ones. The arguments must be valid.
func NodeRules(args *config.CapacityMixArgs) []capacity.Rule {
	rules := make([]capacity.Rule, 0, len(args.NodeRules))
	for i, r := range args.NodeRules {
		t, _ := capacity.ParseType(string(r.CapacityType)) // validated
		name := r.Name
		if name == "" {
			name = fmt.Sprintf("nodeRules[%d]", i)
		}
		rules = append(
			rules,
			capacity.Rule{Name: name, Key: r.Key, Operator: capacity.Operator(r.Operator), Values: r.Values, Requires: r.Requires, Type: t},
		)
	}
	if args.BuiltinNodeRules == config.BuiltinNodeRulesOff {
		return rules
	}
	return capacity.WithDefaults(rules)
}

// Conventions returns the names of annotations and kinds by which mixes and their groups are found.
func Conventions(args *config.CapacityMixArgs) governing.Conventions {
	a := governing.Conventions{Prefixes: args.AnnotationPrefixes, OnePodKinds: onePodKinds(args)}
	if args.SpotalisNamespaces != nil {
		a.SpotalisNamespaces = sets.New(args.SpotalisNamespaces...)
	}
	return a
}

func onePodKinds(args *config.CapacityMixArgs) governing.OnePodKinds {
	kinds := governing.OnePodKinds{}
	for _, k := range args.OnePodKinds {
		kinds[schema.GroupKind{Group: k.APIGroup, Kind: k.Kind}] = k.SetLabel
	}
	return kinds
}

// Classifier compiles the node rules.
func Classifier(args *config.CapacityMixArgs) (*capacity.Classifier, error) {
	c, err := capacity.NewClassifier(NodeRules(args))
	if err != nil {
		return nil, fmt.Errorf("nodeRules: %w", err)
	}
	return c, nil
}

// CapacityTypeLabel returns the node label that limits pods with a scheduling gate to their capacity type. ok is false
// if neither the arguments nor the node rules define one. Pods cannot be limited in that case.
func CapacityTypeLabel(args *config.CapacityMixArgs, c *capacity.Classifier) (label gate.Label, ok bool, err error) {
	if l := args.CapacityTypeLabel; l != nil {
		label = gate.Label{Key: l.Key, Spot: l.Spot, OnDemand: l.OnDemand}
		return label, true, checkLabel(label, args, c)
	}
	for i, r := range args.NodeRules {
		for _, other := range args.NodeRules[i+1:] {
			if other.Key != r.Key || other.CapacityType == r.CapacityType {
				continue
			}
			first, second := named(r), named(other)
			if first == "" || second == "" {
				continue
			}
			label = gate.Label{Key: r.Key, Spot: first, OnDemand: second}
			if r.CapacityType == config.CapacityTypeOnDemand {
				label.Spot, label.OnDemand = label.OnDemand, label.Spot
			}
			return label, checkLabel(label, args, c) == nil, nil
		}
	}
	label = gate.Label{Key: capacity.KarpenterCapacityType, Spot: capacity.Spot.String(), OnDemand: capacity.OnDemand.String()}
	return label, checkLabel(label, args, c) == nil, nil
}

// named returns the first value of a rule with operator In that is not empty: an empty value does not distinguish nodes
// from those without the label.
func named(r config.NodeRule) string {
	if r.Operator == config.NodeRuleIn {
		for _, v := range r.Values {
			if v != "" {
				return v
			}
		}
	}
	return ""
}

// checkLabel rejects values for which the node rules result in another type, on nodes that have the labels that rules
// about the label require. The type of nodes without the label depends on their other labels.
func checkLabel(l gate.Label, args *config.CapacityMixArgs, c *capacity.Classifier) error {
	labels := map[string]string{}
	for _, r := range args.NodeRules {
		if r.Key == l.Key && r.Requires != "" && r.Requires != config.RequiresNothing {
			labels[r.Requires] = ""
		}
	}
	for _, v := range []struct {
		field, value string
		want         capacity.Type
	}{{"spot", l.Spot, capacity.Spot}, {"onDemand", l.OnDemand, capacity.OnDemand}} {
		if v.value == "" {
			continue
		}
		labels[l.Key] = v.value
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
		if t, _ := c.Classify(node); t != v.want {
			return fmt.Errorf(
				"capacityTypeLabel.%s %q: the node rules classify a node with %s=%s as %s", v.field, v.value, l.Key,
				v.value, t,
			)
		}
	}
	return nil
}

// DefaultMixes returns the default mixes of profiles that have one, by scheduler name.
func DefaultMixes(of map[string]*config.CapacityMixArgs) map[string]*governing.Mix {
	mixes := map[string]*governing.Mix{}
	for name, args := range of {
		if m := DefaultMix(args); m != nil {
			mixes[name] = m
		}
	}
	return mixes
}

// DefaultMix returns the mix of pods of a profile that nothing else governs, nil if the profile has none.
func DefaultMix(args *config.CapacityMixArgs) *governing.Mix {
	spec := args.DefaultMix
	if spec == nil {
		return nil
	}
	wait, gated := governing.SpotWaits(spec.SpotWaitSeconds)
	p := &governing.Mix{
		Source:         governing.SourceDefault,
		BorrowOnDemand: spec.WhenSpotUnavailable != config.WhenSpotUnavailableWait,
		SpotWait:       wait,
		GatedSpotWait:  gated,
		BorrowSpot:     spec.WhenOnDemandUnavailable == config.WhenOnDemandUnavailableSpot,
	}
	p.Mix.SpotPercent, p.Mix.MinOnDemand = spec.SpotPercent, spec.MinOnDemand
	p.Mix.MaxSpot = governing.MaxSpot(spec.MaxSpot)
	return p
}

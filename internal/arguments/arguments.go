// SPDX-License-Identifier: Apache-2.0

// Package arguments turns the scheduler plugin's arguments into what the pure
// packages take, so that the scheduler, the controller and the command line
// read a configuration in the same way.
package arguments

import (
	"fmt"
	"time"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/internal/capacity"
	"berth.dev/berth/internal/policy"
)

// NodeRules are the configured rules and, unless they are off, the shipped ones.
// The arguments must be valid.
func NodeRules(args *config.CapacityMixArgs) []capacity.Rule {
	rules := make([]capacity.Rule, 0, len(args.NodeRules))
	for i, r := range args.NodeRules {
		t, _ := capacity.ParseType(string(r.CapacityType)) // validated
		name := r.Name
		if name == "" {
			name = fmt.Sprintf("nodeRules[%d]", i)
		}
		rules = append(rules, capacity.Rule{Name: name, Key: r.Key, Operator: capacity.Operator(r.Operator), Values: r.Values, Requires: r.Requires, Type: t})
	}
	if args.BuiltinNodeRules == config.BuiltinNodeRulesOff {
		return rules
	}
	return capacity.WithDefaults(rules)
}

// Classifier compiles the node rules.
func Classifier(args *config.CapacityMixArgs) (*capacity.Classifier, error) {
	c, err := capacity.NewClassifier(NodeRules(args))
	if err != nil {
		return nil, fmt.Errorf("nodeRules: %w", err)
	}
	return c, nil
}

// DefaultPolicy is the mix of pods of a profile that nothing else governs, nil
// if the profile has none.
func DefaultPolicy(args *config.CapacityMixArgs) *policy.Policy {
	spec := args.DefaultMix
	if spec == nil {
		return nil
	}
	p := &policy.Policy{
		Source:         policy.SourceDefault,
		BorrowOnDemand: spec.WhenSpotUnavailable != config.WhenSpotUnavailableWait,
		SpotWait:       time.Duration(spec.SpotWaitSeconds) * time.Second,
		BorrowSpot:     spec.WhenOnDemandUnavailable == config.WhenOnDemandUnavailableSpot,
	}
	p.Mix.SpotPercent, p.Mix.MinOnDemand = spec.SpotPercent, spec.MinOnDemand
	p.Mix.MaxSpot = policy.MaxSpot(spec.MaxSpot)
	return p
}

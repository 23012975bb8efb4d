// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"time"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/arguments"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/simulation"
)

// Settings are the scheduler's configuration, as far as it decides
// what a node is and which mix a pod has.
type Settings struct {
	// Source describes where they come from, for users.
	Source  string
	Profile *simulation.Profile
	// Rules are the node rules in the order in which they are tried.
	Rules      []capacity.Rule
	Classifier *capacity.Classifier
	// Defaults are the default mixes by scheduler name.
	Defaults map[string]*governing.Mix
}

// NewSettings are those of a profile that source names.
func NewSettings(p *simulation.Profile, source string) (*Settings, error) {
	classifier, err := arguments.Classifier(p.Args)
	if err != nil {
		return nil, fmt.Errorf("scheduler configuration in %s: %w", source, err)
	}
	return &Settings{
		Source: source, Profile: p, Rules: arguments.NodeRules(p.Args), Classifier: classifier, Defaults: arguments.DefaultMixes(p.ArgsOf),
	}, nil
}

// Rule returns the rule of a name.
func (s *Settings) Rule(name string) (capacity.Rule, bool) {
	for _, r := range s.Rules {
		if r.Name == name {
			return r, true
		}
	}
	return capacity.Rule{}, false
}

// RebalanceSettings are what a mix requests of the rebalancer, with the shipped defaults of the controller for what it does
// not specify. cm is its CapacityMix, nil for one that is set in annotations.
func RebalanceSettings(p *governing.Mix, cm *v1alpha1.CapacityMix) (rebalance.Settings, error) {
	d := controller.Default().Mix.Rebalance
	defaults := rebalance.Settings{
		Mode: rebalance.Mode(d.Mode), MaxConcurrent: int(d.MaxConcurrent),
		Stabilization: time.Duration(d.StabilizationSeconds) * time.Second,
		Provisioning:  rebalance.Provisioning(d.Provisioning),
		Strategy:      rebalance.Strategy(d.Strategy),
	}
	return defaults.For(p, cm)
}

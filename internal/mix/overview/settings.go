// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/arguments"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/simulation"
)

// Settings are the scheduler's configuration, as far as it decides what a node is and which mix a pod has, and that of the controller.
type Settings struct {
	// Source describes where they come from, for users.
	Source  string
	Profile *simulation.Profile
	// Rules are the node rules in the order in which they are tried.
	Rules      []capacity.Rule
	Classifier *capacity.Classifier
	// Defaults are the default mixes by scheduler name.
	Defaults map[string]*governing.Mix
	// Controller is the configuration of the controller without its flags, ControllerSource where it comes from, for users.
	Controller       *controller.Configuration
	ControllerSource string
	// ControllerErr is why the configuration of the controller cannot be used. Nothing is known about moves then.
	ControllerErr error
}

// ShippedDefaults is the source of settings that no configuration was read for.
const ShippedDefaults = "the defaults"

// NewSettings are those of a profile that source names, and the shipped configuration of the controller.
func NewSettings(p *simulation.Profile, source string) (*Settings, error) {
	classifier, err := arguments.Classifier(p.Args)
	if err != nil {
		return nil, fmt.Errorf("scheduler configuration in %s: %w", source, err)
	}
	return &Settings{
		Source: source, Profile: p, Rules: arguments.NodeRules(p.Args), Classifier: classifier, Defaults: arguments.DefaultMixes(p.ArgsOf),
		Controller: controller.Default(), ControllerSource: ShippedDefaults,
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

// RebalanceSettings are what a mix requests of the rebalancer, with the settings of the controller for what it does not specify. cm is its
// CapacityMix, nil for one that is set in annotations.
func (s *Settings) RebalanceSettings(p *governing.Mix, cm *v1alpha1.CapacityMix) (rebalance.Settings, error) {
	if s.ControllerErr != nil {
		return rebalance.Settings{}, s.ControllerErr
	}
	return rebalance.Defaults(&s.Controller.Mix.Rebalance).For(p, cm)
}

// SPDX-License-Identifier: Apache-2.0

package live

import (
	"fmt"
	"os"
	"time"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/arguments"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/simulation"
)

// Settings are what the scheduler's configuration says, as far as it decides
// what a node is and which mix a pod has.
type Settings struct {
	// Source says where they come from, for people.
	Source  string
	Profile *simulation.Profile
	// Rules are the node rules in the order in which they are tried.
	Rules      []capacity.Rule
	Classifier *capacity.Classifier
	// Defaults are the default mixes by scheduler name.
	Defaults map[string]*policy.Policy
}

// FromFile reads a KubeSchedulerConfiguration.
func FromFile(path string) (*Settings, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the user's own file, named on the command line
	if err != nil {
		return nil, fmt.Errorf("read the scheduler's configuration: %w", err)
	}
	return FromData(data, "file "+path)
}

// FromData reads a KubeSchedulerConfiguration that source names.
func FromData(data []byte, source string) (*Settings, error) {
	profile, err := simulation.ParseProfile(data)
	if err != nil {
		return nil, fmt.Errorf("scheduler configuration in %s: %w", source, err)
	}
	return settings(profile, source)
}

// Defaults are the settings of manifests/scheduler/second-scheduler.yaml.
func Defaults() (*Settings, error) {
	return settings(simulation.DefaultProfile(), "the defaults")
}

func settings(p *simulation.Profile, source string) (*Settings, error) {
	s := &Settings{Source: source, Profile: p, Rules: arguments.NodeRules(p.Args), Defaults: map[string]*policy.Policy{}}
	for name, args := range p.ArgsOf {
		if d := arguments.DefaultPolicy(args); d != nil {
			s.Defaults[name] = d
		}
	}
	var err error
	if s.Classifier, err = arguments.Classifier(p.Args); err != nil {
		return nil, fmt.Errorf("scheduler configuration in %s: %w", source, err)
	}
	return s, nil
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

// RebalanceSettings are what a mix asks of the rebalancer, with the shipped
// defaults of the controller for what it does not say. cm may be nil.
func RebalanceSettings(cm *v1alpha1.CapacityMix) (rebalance.Settings, error) {
	d := controller.Default().Mix.Rebalance
	defaults := rebalance.Settings{
		Mode: rebalance.Mode(d.Mode), MaxConcurrent: int(d.MaxConcurrent),
		Stabilization: time.Duration(d.StabilizationSeconds) * time.Second,
		Provisioning:  rebalance.Provisioning(d.Provisioning),
	}
	return defaults.For(cm)
}

// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedvalidation "k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"berth.dev/berth/apis/config"
	// The arguments of Berth's plugins.
	configv1 "berth.dev/berth/apis/config/v1"
	"berth.dev/berth/apis/config/validation"
	"berth.dev/berth/internal/mix/arguments"
	_ "berth.dev/berth/internal/mix/arguments/scheme" // decodes the arguments of the plugins
	"berth.dev/berth/internal/mix/gate"
)

// The names of plugins, which this package must not import.
const (
	capacityMix         = "CapacityMix"
	schedulingPolicy    = "SchedulingPolicy"
	topologySpreadScore = "TopologySpreadScore"
)

// defaultConfiguration is the configuration of berth-scheduler without a file.
const defaultConfiguration = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceNamespace: berth-system, resourceName: berth-scheduler}
profiles:
- schedulerName: berth-scheduler
  plugins: {multiPoint: {enabled: [{name: Reservation}, {name: CapacityMix}, {name: ResourceLimit}]}}
`

// stockConfiguration is the configuration of the default scheduler of Kubernetes, which Berth assumes.
const stockConfiguration = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
`

// Lease identifies the lease of the schedulers' leader election.
type Lease struct{ Namespace, Name string }

// Profile is the part of the scheduler's configuration that the replay and the controller need.
type Profile struct {
	// SchedulerNames are the profiles in which CapacityMix is enabled, in the order of the configuration.
	SchedulerNames []string
	// Args are the defaulted arguments of CapacityMix in the first of them.
	Args *config.CapacityMixArgs
	// ArgsOf are the arguments by scheduler name.
	ArgsOf map[string]*config.CapacityMixArgs
	// Skipped lists, sorted, what can reject a node and cannot be replayed: out-of-tree plugins other than Berth's, and
	// extenders.
	Skipped []string
	// Lease is the lease of the schedulers, the zero value if leader election is disabled.
	Lease Lease
	// Label limits pods with the scheduling gate, and placeholders, to a type. If its key is empty, pods cannot be
	// limited.
	Label gate.Label

	// stock is true if the configuration has no profile default-scheduler: the profile then represents the default
	// scheduler of Kubernetes, which schedules pods that request it once their gate is removed.
	stock bool
	// replays are the replayed parts of all profiles, by scheduler name: a pod that a mix only counts may use a profile
	// without CapacityMix.
	replays map[string]replayed
}

// replayed is the part of a profile that can be replayed.
type replayed struct {
	profile schedconfig.KubeSchedulerProfile
	skipped []string
	// limits is nil for a profile without the plugin ResourceLimit.
	limits *config.ResourceLimitArgs
	// reserves is set for a profile with the plugin Reservation.
	reserves bool
}

// readsLimits reports whether a profile enables the plugin ResourceLimit.
func (p *Profile) readsLimits() bool {
	return p.any(func(r replayed) bool { return r.limits != nil })
}

// readsReservations reports whether a profile enables the plugin Reservation.
func (p *Profile) readsReservations() bool {
	return p.any(func(r replayed) bool { return r.reserves })
}

func (p *Profile) any(is func(replayed) bool) bool {
	for _, r := range p.replays {
		if is(r) {
			return true
		}
	}
	return false
}

// LoadProfile reads a file with a KubeSchedulerConfiguration, as strictly as the scheduler does.
func LoadProfile(path string) (*Profile, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the operator's own file, from the command line
	if err != nil {
		return nil, fmt.Errorf("read the scheduler's configuration: %w", err)
	}
	p, err := ParseProfile(data)
	if err != nil {
		return nil, fmt.Errorf("scheduler configuration %s: %w", path, err)
	}
	return p, nil
}

// ParseProfile parses a KubeSchedulerConfiguration.
func ParseProfile(data []byte) (*Profile, error) {
	c, err := decode(data)
	if err != nil {
		return nil, err
	}
	return newProfile(c)
}

func decode(data []byte) (*schedconfig.KubeSchedulerConfiguration, error) {
	object, kind, err := schedscheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	c, ok := object.(*schedconfig.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("kind: want KubeSchedulerConfiguration, got %s", kind)
	}
	// Decoding clears it, but validation requires it.
	c.APIVersion = kind.GroupVersion().String()
	if err := schedvalidation.ValidateKubeSchedulerConfiguration(c); err != nil {
		return nil, err
	}
	return c, nil
}

// DefaultProfile returns the profile of berth-scheduler with the in-tree plugins and Berth's, all with their default
// arguments.
func DefaultProfile() *Profile {
	p, err := ParseProfile([]byte(defaultConfiguration))
	if err != nil {
		panic(err) // a constant, and a test parses it
	}
	return p
}

func newProfile(c *schedconfig.KubeSchedulerConfiguration) (*Profile, error) {
	p := &Profile{ArgsOf: map[string]*config.CapacityMixArgs{}, replays: map[string]replayed{}}
	for i := range c.Profiles {
		if err := p.add(field.NewPath("profiles").Index(i), &c.Profiles[i], c.Extenders); err != nil {
			return nil, err
		}
	}
	if len(p.SchedulerNames) == 0 {
		return nil, errors.New("profiles: no profile enables the plugin " + capacityMix)
	}
	slices.Sort(p.Skipped)
	p.Skipped = slices.Compact(p.Skipped)
	if e := c.LeaderElection; e.LeaderElect {
		p.Lease = Lease{Namespace: e.ResourceNamespace, Name: e.ResourceName}
	}
	if err := p.addLabel(); err != nil {
		return nil, err
	}
	return p, p.addStock()
}

func (p *Profile) addLabel() error {
	classifier, err := arguments.Classifier(p.Args)
	if err != nil {
		return err
	}
	label, ok, err := arguments.CapacityTypeLabel(p.Args, classifier)
	if ok {
		p.Label = label
	}
	return err
}

func (p *Profile) addStock() error {
	if _, known := p.replays[corev1.DefaultSchedulerName]; known {
		return nil
	}
	c, err := decode([]byte(stockConfiguration))
	if err != nil {
		return err
	}
	p.stock = true
	p.replays[corev1.DefaultSchedulerName] = replayable(&c.Profiles[0], nil)
	return nil
}

func (p *Profile) add(path *field.Path, profile *schedconfig.KubeSchedulerProfile, extenders []schedconfig.Extender) error {
	r := replayable(profile, extenders)
	r.reserves = enables(profile.Plugins, reservation)
	configs := path.Child("pluginConfig")
	if enables(profile.Plugins, resourceLimit) {
		args, err := argsOf(
			configs, profile.PluginConfig, resourceLimit, &configv1.ResourceLimitArgs{}, &config.ResourceLimitArgs{},
			validation.ValidateResourceLimitArgs,
		)
		if err != nil {
			return err
		}
		r.limits = args
	}
	p.replays[profile.SchedulerName] = r
	p.Skipped = append(p.Skipped, r.skipped...)
	if !enables(profile.Plugins, capacityMix) {
		return nil
	}
	// The scores of these plugins fail without the state of their PreScore. The profiles that Berth ships replace one
	// by the other at both extension points. If one is forgotten, the scheduler starts but schedules no pod.
	for _, name := range []string{names.PodTopologySpread, topologySpreadScore} {
		if runsAt(profile.Plugins, profile.Plugins.Score, name) && !runsAt(profile.Plugins, profile.Plugins.PreScore, name) {
			return field.Invalid(path.Child("plugins", "preScore"), name, "must be enabled here because it is enabled under score")
		}
	}
	args, err := argsOf(
		configs, profile.PluginConfig, capacityMix, &configv1.CapacityMixArgs{}, &config.CapacityMixArgs{},
		validation.ValidateCapacityMixArgs,
	)
	if err != nil {
		return err
	}
	if p.Args == nil {
		p.Args = args
	}
	p.SchedulerNames = append(p.SchedulerNames, profile.SchedulerName)
	p.ArgsOf[profile.SchedulerName] = args
	return nil
}

// argsOf returns a plugin's arguments, the defaults if there are none.
func argsOf[T runtime.Object](path *field.Path, configs []schedconfig.PluginConfig, plugin string, versioned runtime.Object, defaults T,
	validate func(*field.Path, T) field.ErrorList,
) (T, error) {
	for i := range configs {
		if configs[i].Name != plugin {
			continue
		}
		args, ok := configs[i].Args.(T)
		argsPath := path.Index(i).Child("args")
		if !ok {
			return args, fmt.Errorf("%s: want %sArgs, got %T", argsPath, plugin, configs[i].Args)
		}
		return args, validate(argsPath, args).ToAggregate()
	}
	schedscheme.Scheme.Default(versioned)
	return defaults, schedscheme.Scheme.Convert(versioned, defaults, nil)
}

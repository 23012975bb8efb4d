// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/config/validation"
	"berth.dev/berth/internal/mix/arguments"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/plugins/internal/perscheduler"
)

// Name of the plugin in KubeSchedulerConfiguration profiles.
const Name = "CapacityMix"

// preFilterStateKey finds the cycle in CycleState. An interface constant would
// be boxed on every read.
const preFilterStateKey fwk.StateKey = "PreFilter" + Name

// CapacityMix implements the extension points. It has no state of its own: the
// ledger is shared by all profiles of a scheduler and rebuilt from the API.
type CapacityMix struct {
	*shared
	handle     framework.Handle
	resolver   *policy.Resolver
	sampleSize int
	rankBy     config.RankSampleBy
	// known are nodes of each type that are worth another look.
	known map[capacity.Type]*memory
	clock clock.WithDelayedExecution
}

var (
	_ framework.PreEnqueuePlugin  = &CapacityMix{}
	_ framework.PreFilterPlugin   = &CapacityMix{}
	_ framework.FilterPlugin      = &CapacityMix{}
	_ framework.PostFilterPlugin  = &CapacityMix{}
	_ framework.PreScorePlugin    = &CapacityMix{}
	_ framework.ScorePlugin       = &CapacityMix{}
	_ framework.ReservePlugin     = &CapacityMix{}
	_ framework.BindPlugin        = &CapacityMix{}
	_ framework.EnqueueExtensions = &CapacityMix{}
)

// Name returns the plugin's name.
func (pl *CapacityMix) Name() string { return Name }

// NewFactory returns a plugin factory for one scheduler binary. All profiles of
// a scheduler share one ledger; the factory remembers it per scheduler, so one
// factory can serve several schedulers of a process, as tests run them.
func NewFactory(options ...Option) frameworkruntime.PluginFactory {
	f := &factory{}
	for _, option := range options {
		option(f)
	}
	return f.build
}

// Option changes what the plugin does in a process.
type Option func(*factory)

// OpenGates has the plugin open the scheduling gates of pods once the process
// leads: from when the channel is closed. Without it no gate is opened.
func OpenGates(leads <-chan struct{}) Option { return func(f *factory) { f.leads = leads } }

// FencedBy has the plugin write nothing more once shut says that the process
// was stopped for so long that another one may lead.
func FencedBy(shut func() bool) Option { return func(f *factory) { f.shut = shut } }

// factory makes the plugins of one scheduler binary.
type factory struct {
	schedulers perscheduler.Parts[*shared]
	leads      <-chan struct{}
	shut       func() bool
}

func (f *factory) build(ctx context.Context, obj runtime.Object, handle framework.Handle) (framework.Plugin, error) {
	args, ok := obj.(*config.CapacityMixArgs)
	if !ok {
		return nil, fmt.Errorf("want args to be of type CapacityMixArgs, got %T", obj)
	}
	if err := validation.ValidateCapacityMixArgs(field.NewPath("pluginConfig", Name, "args"), args).ToAggregate(); err != nil {
		return nil, err
	}
	s, err := f.join(ctx, handle, args)
	if err != nil {
		return nil, err
	}
	registerMetrics()
	resolver := &policy.Resolver{
		Prefixes:    args.AnnotationPrefixes,
		Mixes:       s.mixes,
		Controllers: s.controllers,
		Default:     arguments.DefaultPolicy(args),
	}
	if profile, ok := handle.(framework.Framework); ok {
		s.opener.resolvers[profile.ProfileName()] = resolver
	}
	return &CapacityMix{
		shared:     s,
		handle:     handle,
		resolver:   resolver,
		sampleSize: int(args.NodeSampleSize),
		rankBy:     args.RankSampleBy,
		known:      map[capacity.Type]*memory{capacity.Spot: {}, capacity.OnDemand: {}},
		clock:      clock.RealClock{},
	}, nil
}

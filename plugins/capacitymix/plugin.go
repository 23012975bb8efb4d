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
	"berth.dev/berth/internal/arguments"
	"berth.dev/berth/internal/policy"
	"berth.dev/berth/plugins/perscheduler"
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
	clock      clock.WithDelayedExecution
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
func NewFactory() frameworkruntime.PluginFactory {
	schedulers := &perscheduler.Parts[*shared]{}
	return func(ctx context.Context, obj runtime.Object, handle framework.Handle) (framework.Plugin, error) {
		return build(ctx, obj, handle, schedulers)
	}
}

func build(ctx context.Context, obj runtime.Object, handle framework.Handle, schedulers *perscheduler.Parts[*shared]) (framework.Plugin, error) {
	args, ok := obj.(*config.CapacityMixArgs)
	if !ok {
		return nil, fmt.Errorf("want args to be of type CapacityMixArgs, got %T", obj)
	}
	if err := validation.ValidateCapacityMixArgs(field.NewPath("pluginConfig", Name, "args"), args).ToAggregate(); err != nil {
		return nil, err
	}
	s, err := join(ctx, schedulers, handle, args)
	if err != nil {
		return nil, err
	}
	registerMetrics()
	return &CapacityMix{
		shared: s,
		handle: handle,
		resolver: &policy.Resolver{
			Prefixes:    args.AnnotationPrefixes,
			Mixes:       s.mixes,
			Controllers: s.controllers,
			Default:     arguments.DefaultPolicy(args),
		},
		sampleSize: int(args.NodeSampleSize),
		clock:      clock.RealClock{},
	}, nil
}

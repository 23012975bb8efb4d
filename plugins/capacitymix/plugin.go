// SPDX-License-Identifier: Apache-2.0

// Package capacitymix is the scheduler plugin that places every replica of a
// workload on the capacity type its mix requests.
//
// A pod claims the lowest free slot of its group when it is first considered;
// the slot determines its type. Filter limits it to nodes of that type; where they
// have no free capacity, PostFilter moves it from a sample of them to all of them and
// then, if the mix allows it, to the other type. Bind writes the slot on the
// pod in the Binding itself, so that no call is made that the stock scheduler
// does not make.
package capacitymix

import (
	"context"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/config/validation"
	"berth.dev/berth/internal/mix/arguments"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/plugins/capacitymix/nodesample"
	"berth.dev/berth/plugins/capacitymix/state"
	"berth.dev/berth/plugins/capacitymix/ungate"
	"berth.dev/berth/plugins/internal/admission"
	"berth.dev/berth/plugins/internal/perscheduler"
)

// Name of the plugin in KubeSchedulerConfiguration profiles.
const Name = "CapacityMix"

// CapacityMix implements the extension points. It has no state of its own: the
// ledger is shared by all profiles of a scheduler and rebuilt from the API.
type CapacityMix struct {
	*state.State
	handle   fwk.Handle
	resolver *governing.Resolver
	sampler  *nodesample.Sampler
	// packing samples for pods whose policy prefers nodes that are used most.
	packing *nodesample.Sampler
	clock   clock.PassiveClock
	// none is the state of pods that are placed without a mix.
	none *noSlot
	// departed is the last pod that a queueing hint was called for.
	departed atomic.Pointer[departed]
}

var (
	_ fwk.PreEnqueuePlugin         = &CapacityMix{}
	_ fwk.PreFilterPlugin          = &CapacityMix{}
	_ fwk.FilterPlugin             = &CapacityMix{}
	_ fwk.PostFilterPlugin         = &CapacityMix{}
	_ fwk.PreScorePlugin           = &CapacityMix{}
	_ fwk.PodGroupPostFilterPlugin = &CapacityMix{}
	_ fwk.ScorePlugin              = &CapacityMix{}
	_ fwk.ReservePlugin            = &CapacityMix{}
	_ fwk.BindPlugin               = &CapacityMix{}
	_ fwk.EnqueueExtensions        = &CapacityMix{}
	_ fwk.SignPlugin               = &CapacityMix{}
)

// Name returns the plugin's name.
func (pl *CapacityMix) Name() string { return Name }

// NewFactory returns a plugin factory for one scheduler binary. All profiles of
// a scheduler share one ledger; the factory has it per scheduler, so one factory
// can serve several schedulers of a process, as in tests.
func NewFactory(options ...Option) perscheduler.Factory {
	f := &factory{clock: clock.RealClock{}}
	for _, option := range options {
		option(f)
	}
	return f.build
}

// Option changes what the plugin does in a process.
type Option func(*factory)

// WithUngater has the plugin remove the scheduling gates of pods once the process
// leads: from when the channel is closed. The check finds which spot nodes have
// room for them. Without it no gate is removed.
func WithUngater(leads <-chan struct{}, check admission.Check) Option {
	return func(f *factory) { f.leads, f.admission = leads, check }
}

// WithFence has the plugin write nothing more once fenced returns true: the
// process was stopped for so long that another one may lead.
func WithFence(fenced func() bool) Option { return func(f *factory) { f.fenced = fenced } }

// WithClock has the plugin go by a clock, as in a simulation. The times of pods must be of the same one.
func WithClock(c clock.WithDelayedExecution) Option { return func(f *factory) { f.clock = c } }

// Classifiers are how schedulers classify nodes, for other plugins.
type Classifiers = perscheduler.Values[*capacity.Classifier]

// WithClassifiers has the plugin share how it classifies nodes.
func WithClassifiers(c *Classifiers) Option { return func(f *factory) { f.classifiers = c } }

// factory creates the plugins of one scheduler binary.
type factory struct {
	schedulers  perscheduler.Parts[*shared]
	classifiers *Classifiers
	leads       <-chan struct{}
	admission   admission.Check // nil without leads
	fenced      func() bool
	clock       clock.WithDelayedExecution
}

func (f *factory) build(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args, err := perscheduler.Args(Name, obj, validation.ValidateCapacityMixArgs)
	if err != nil {
		return nil, err
	}
	s, err := f.schedulers.Join(ctx, handle,
		func() (*shared, error) { return f.newShared(ctx, handle, args) },
		func(s *shared) error { return argsError(s.Agree(args)) })
	if err != nil {
		return nil, err
	}
	resolver := s.Resolver(arguments.DefaultMix(args))
	s.AddProfile(handle.ProfileName(), resolver)
	pl := &CapacityMix{
		State:    s.State,
		handle:   handle,
		resolver: resolver,
		sampler:  s.sampler(sampling{int(args.NodeSampleSize), args.RankSampleBy, nodesample.SpreadWeight}),
		packing:  s.sampler(sampling{int(args.NodeSampleSize), config.RankSampleByMostAllocated, 0}),
		clock:    f.clock,
	}
	pl.none = &noSlot{pl}
	return pl, nil
}

// argsError adds where the arguments are to an error about a field of them.
func argsError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pluginConfig.%s.args.%w", Name, err)
}

// shared is created for the first profile of a scheduler, and used to create the plugins of all.
type shared struct {
	*state.State
	ungater  *ungate.Ungater
	label    gate.Label
	samplers map[sampling]*nodesample.Sampler
}

// sampling is how a profile samples nodes.
type sampling struct {
	size         int
	rankBy       config.RankSampleBy
	spreadWeight int64
}

func (f *factory) newShared(ctx context.Context, handle fwk.Handle, args *config.CapacityMixArgs) (*shared, error) {
	classifier, err := arguments.Classifier(args)
	if err != nil {
		return nil, argsError(err)
	}
	label, ok, err := arguments.CapacityTypeLabel(args, classifier)
	if err != nil {
		return nil, argsError(err)
	}
	if f.classifiers != nil {
		f.classifiers.Set(ctx, handle, classifier)
	}
	s := &shared{label: label, samplers: map[sampling]*nodesample.Sampler{}}
	if s.State, err = state.New(ctx, handle, args, classifier, f.fenced, f.clock); err != nil {
		return nil, err
	}
	var limitBy *gate.Label
	if ok {
		limitBy = &label
	}
	s.ungater = ungate.New(ctx, s.State, handle.ClientSet(), limitBy, f.admission)
	if err := s.Start(ctx, handle, s.ungater); err != nil {
		return nil, err
	}
	if f.leads != nil {
		go s.ungater.Run(ctx, f.leads)
	}
	return s, nil
}

// sampler returns the sampler of the profiles that sample in a way.
func (s *shared) sampler(way sampling) *nodesample.Sampler {
	if s.samplers[way] == nil {
		s.samplers[way] = nodesample.NewSampler(s.Ledger, way.size, way.rankBy, way.spreadWeight, s.label.Key)
	}
	return s.samplers[way]
}

// SPDX-License-Identifier: Apache-2.0

// Package state is what the profiles of one scheduler share, updated by event
// handlers of the scheduler's informers.
package state

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	clientevents "k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/kube/client"
	"berth.dev/berth/internal/kube/controllerref"
	"berth.dev/berth/internal/mix/arguments"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/plugins/capacitymix/events"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/capacitymix/lookup"
	"berth.dev/berth/plugins/capacitymix/stages"
	"berth.dev/berth/plugins/capacitymix/wakeup"
	"berth.dev/berth/plugins/internal/crdinformer"
	"berth.dev/berth/plugins/internal/metrics"
	"berth.dev/berth/plugins/internal/perscheduler"
	"berth.dev/berth/plugins/internal/taints"
)

// ErrReasonNotSynced is the reason for which PreEnqueue holds a pod back at first.
const ErrReasonNotSynced = "not all nodes, pods and mixes are known yet"

// mixResource is the resource that must be known before a pod is placed.
var mixResource = crdinformer.Resource{Name: "capacitymixes", Object: &v1alpha1.CapacityMix{}}

// State is shared by the profiles of a scheduler. It has nothing that is not
// rebuilt from the API when the scheduler starts again.
type State struct {
	Args       *config.CapacityMixArgs
	Classifier *capacity.Classifier
	Ledger     *ledger.Ledger
	Mixes      *governing.Registry
	Owners     *lookup.Owners
	Lookups    *lookup.Lookups
	Pods       corelisters.PodLister
	Nodes      corelisters.NodeLister
	Events     *events.Recorder
	Timers     *wakeup.Timers
	Searches   *stages.Searches
	Bindings   *Bindings
	// Quarantine is that of interruption domains in the ledger.
	Quarantine *Quarantine
	// Progress is that of the pods in the ledger.
	Progress Progress
	// Startup opens once the ledger has the first list of everything that it is
	// built from, and the watch of mixes has begun.
	Startup perscheduler.Startup

	// resolver resolves the mixes of pods of any profile, with the default of the first one; profiles have those of each, and foreign
	// is that of the pods of other schedulers.
	resolver, foreign *governing.Resolver
	profiles          map[string]*governing.Resolver
	ungater           Ungater
	// throttle activates pods by owner, regroups updates them.
	throttle, regroups *budget.Throttle[types.UID]
	groupings          groupings
	first              firstGroups
	queue              wakeup.Activate // of the scheduler
	changes            atomic.Uint64
	fenced             func() bool // nil where nothing is fenced
	logger             klog.Logger
}

// Ungater handles pods with Berth's scheduling gate, see package ungate.
type Ungater interface {
	// Add requests that a pod is ungated.
	Add(pod *corev1.Pod)
	// PodUpdated records an active pod. It is called before the ledger is updated, which may have the pod's successor ungated.
	PodUpdated(pod *corev1.Pod)
	// PodGone records that a pod is terminating, finished or deleted.
	PodGone(uid types.UID)
	// MixChanged evaluates an active pod again whose mix may have changed.
	MixChanged(pod *corev1.Pod)
}

// New returns the state of a scheduler. Once fenced returns true, the process
// writes nothing any more, since another one may lead.
func New(
	ctx context.Context, handle fwk.Handle, args *config.CapacityMixArgs, classifier *capacity.Classifier, fenced func() bool,
	c clock.WithDelayedExecution,
) (*State, error) {
	metrics.Register()
	factory := handle.SharedInformerFactory()
	s := &State{
		Args:       args,
		Classifier: classifier,
		Ledger:     ledger.New(classifier, args.SpreadSpotOver),
		Mixes:      governing.NewRegistry(),
		Owners:     lookup.NewOwners(factory, args.AnnotationPrefixes),
		Pods:       factory.Core().V1().Pods().Lister(),
		Nodes:      factory.Core().V1().Nodes().Lister(),
		Events:     events.NewRecorder(func() clientevents.EventRecorder { return handle.EventRecorder() }),
		Searches:   stages.NewSearches(),
		Bindings:   NewBindings(firstBound, bindingTimeout),
		Startup: perscheduler.Startup{
			Reason: ErrReasonNotSynced,
			Unseen: "the ledger of plugin CapacityMix has not seen all nodes, pods and CapacityMixes",
		},
		queue:  handle.Activate,
		fenced: fenced,
		logger: klog.FromContext(ctx),
	}
	s.Quarantine = NewQuarantine(s.Ledger, args.SpreadSpotOver, c, s.logger)
	s.Mixes.Comparison = taints.Compared()
	s.Ledger.Versions = s.Version
	s.Ledger.Wake = func(pods []*corev1.Pod) { s.Activate(s.logger, perscheduler.Pods(pods...)) }
	s.resolver, s.foreign = s.Resolver(arguments.DefaultMix(args)), s.Resolver(nil)
	s.profiles = map[string]*governing.Resolver{}
	s.Timers = wakeup.NewTimers(s.Pods, handle.Activate, c, s.logger)
	s.throttle = budget.NewThrottle(s.activateChanged)
	s.Quarantine.Wake = s.throttle.NamespaceChanged
	s.regroups = budget.NewHeldThrottle(s.regroup)
	s.throttle.Clock, s.regroups.Clock = c, c
	options := lookup.Options{
		Owners:     s.Owners,
		Classifier: classifier,
		Resolver:   s.resolver,
		Activate:   s.Activate,
		ReadOwner: func(ctx context.Context, namespace string, ref *metav1.OwnerReference) (metav1.Object, error) {
			return controllerref.Read(ctx, handle.ClientSet(), namespace, ref)
		},
	}
	if config := handle.KubeConfig(); config != nil { // there is no API server in unit tests
		client, err := client.New(config)
		if err != nil {
			return nil, fmt.Errorf("client for %s: %w", mixResource.CRD(), err)
		}
		options.ListMixes = func(ctx context.Context, namespace string) ([]lookup.Mix, error) {
			return lookup.ListMixes(ctx, client, mixResource.Name, namespace)
		}
	}
	s.Lookups = lookup.New(ctx, options)
	return s, nil
}

// Start registers the event handlers. The scheduler starts their informers.
func (s *State) Start(ctx context.Context, handle fwk.Handle, ungater Ungater) error {
	s.ungater = ungater
	if err := s.watch(handle.SharedInformerFactory()); err != nil {
		return err
	}
	if err := mixResource.Watch(ctx, handle, &s.Startup, s.Args.SyncTimeoutSeconds, s.MixHandler()); err != nil {
		return err
	}
	if err := s.Quarantine.Watch(ctx, handle.ClientSet(), s.Args.InterruptionsNamespace); err != nil {
		return err
	}
	s.Startup.Add(s.regrouped) // after all that it depends on
	go s.Startup.Release(ctx, s.Activate)
	return nil
}

// Agree returns an error if a profile's arguments would have nodes or groups
// classified differently than those of the other profiles: they share one ledger.
func (s *State) Agree(args *config.CapacityMixArgs) error {
	for field, equal := range map[string]bool{
		"nodeRules":              equality.Semantic.DeepEqual(s.Args.NodeRules, args.NodeRules),
		"builtinNodeRules":       s.Args.BuiltinNodeRules == args.BuiltinNodeRules,
		"spreadSpotOver":         slices.Equal(s.Args.SpreadSpotOver, args.SpreadSpotOver),
		"interruptionsNamespace": s.Args.InterruptionsNamespace == args.InterruptionsNamespace,
		"annotationPrefixes":     slices.Equal(s.Args.AnnotationPrefixes, args.AnnotationPrefixes),
		"onePodKinds":            equality.Semantic.DeepEqual(s.Args.OnePodKinds, args.OnePodKinds),
		"spotalisNamespaces":     sets.New(s.Args.SpotalisNamespaces...).Equal(sets.New(args.SpotalisNamespaces...)),
		"capacityTypeLabel":      equality.Semantic.DeepEqual(s.Args.CapacityTypeLabel, args.CapacityTypeLabel),
	} {
		if !equal {
			return fmt.Errorf("%s: must be the same in all profiles of a scheduler", field)
		}
	}
	return nil
}

// Resolver returns a resolver with a default mix, nil for none.
func (s *State) Resolver(defaultMix *governing.Mix) *governing.Resolver {
	return &governing.Resolver{
		Conventions: arguments.Conventions(s.Args),
		Mixes:       s.Mixes,
		Controllers: s.Owners,
		Default:     defaultMix,
	}
}

// AddProfile sets the resolver of the pods of a profile. The informers start later.
func (s *State) AddProfile(name string, r *governing.Resolver) { s.profiles[name] = r }

// ResolverOf returns the resolver by which a pod claims its slot.
func (s *State) ResolverOf(pod *corev1.Pod) *governing.Resolver {
	if r := s.profiles[pod.Spec.SchedulerName]; r != nil {
		return r
	}
	return s.foreign
}

// Changes counts the changes of mixes, and of the annotations of owners, that were seen. While it stays the same, a pod keeps its mix.
func (s *State) Changes() uint64 { return s.changes.Load() }

// Version is what the groups of a namespace's pods are resolved by. It must be read before a pod is resolved: what is written with an
// outdated one, the ledger refuses.
func (s *State) Version(namespace string) ledger.Version {
	return ledger.Version{Mixes: s.Mixes.Version(namespace), Changes: s.changes.Load()}
}

// Member returns what a pod is in the group of the mix that governs it. It is the same for all profiles.
func (s *State) Member(pod *corev1.Pod, p *governing.Mix) (member governing.Member, ok bool) {
	return s.resolver.Member(pod, p)
}

// Claim takes or confirms the slot of a pod in the ledger. keep is that of ledger.Claim, and v is the version by which the pod was
// resolved.
func (s *State) Claim(pod *corev1.Pod, member governing.Member, p *governing.Mix, v ledger.Version, keep bool) (ledger.Hold, error) {
	c := s.ClaimOf(pod, member, p, v)
	c.Keep = keep
	return s.Ledger.Claim(c)
}

// ClaimOf is what a pod requests of the ledger.
func (s *State) ClaimOf(pod *corev1.Pod, member governing.Member, p *governing.Mix, v ledger.Version) ledger.Claim {
	c := ledger.Claim{Pod: pod, Member: member, Governing: p, Version: v, Exists: func() bool { return s.exists(pod) }}
	if len(p.MaxPerDomain) > 0 {
		c.Wanted = s.Owners.Wanted(pod, member)
	}
	return c
}

// exists reports whether the API server is known to have the pod.
func (s *State) exists(pod *corev1.Pod) bool { return s.current(pod) != nil }

// current returns a pod as the cache has it, nil if it is deleted.
func (s *State) current(pod *corev1.Pod) *corev1.Pod {
	cached, err := s.Pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || cached.UID != pod.UID {
		return nil
	}
	return cached
}

// Activate has pods handled again: by the ungater, or by the scheduling queue.
func (s *State) Activate(logger klog.Logger, pods map[string]*corev1.Pod) {
	for name, pod := range pods {
		if gate.Has(pod) {
			s.ungater.Add(pod)
			delete(pods, name)
		}
	}
	if len(pods) > 0 {
		s.queue(logger, pods)
	}
}

// WaitIfFenced must be called before every write. In a process that must not
// write any more it blocks until the process ends, which is imminent: an error
// would have the scheduler write that the pod could not be scheduled.
func (s *State) WaitIfFenced(ctx context.Context) error {
	if s.fenced == nil || !s.fenced() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// SPDX-License-Identifier: Apache-2.0

// Package controllers puts the companion controller together: the feed that
// knows the cluster, the rebalancer that decides and evicts, what opens gates
// that no scheduler does, the status of CapacityMixes and ResourceLimits, and
// the webhook.
package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	envcontroller "berth.dev/berth/controllers/environments"
	"berth.dev/berth/controllers/limits"
	"berth.dev/berth/controllers/mix/board"
	"berth.dev/berth/controllers/mix/gatefailopen"
	"berth.dev/berth/controllers/mix/rebalance"
	"berth.dev/berth/controllers/mix/status"
	"berth.dev/berth/controllers/state"
	"berth.dev/berth/internal/clusterstate"
	"berth.dev/berth/internal/limits/registry"
	"berth.dev/berth/internal/mix/arguments"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/policy"
	decision "berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/simulation"
)

// parts are what Add wires up.
type parts struct {
	mgr     ctrl.Manager
	cfg     *controller.Configuration
	profile *simulation.Profile
	kube    kubernetes.Interface
	store   *policy.Store
	board   *board.Board
	fleet   *clusterstate.Fleet
	feed    *state.Feed
	status  *status.Reconciler
	// registry has the ResourceLimits, limits counts who has them.
	registry   *registry.Registry
	limits     *limits.Tracker
	templates  *limits.Templates
	rebalancer *rebalance.Controller
	gates      *gatefailopen.Controller
	// environments is nil where there are none.
	environments *envcontroller.Reconciler
	// watched counts the kinds whose handlers have seen the first list.
	watched atomic.Int32
	// limitsRead is set once the registry has the first list.
	limitsRead atomic.Bool
}

// Add adds the controllers to a manager that is not started yet. What it returns has them go by another configuration from
// then on, as far as reload.Fields are concerned.
func Add(mgr ctrl.Manager, cfg *controller.Configuration) (retune func(*controller.Configuration), err error) {
	p := &parts{mgr: mgr, cfg: cfg, store: policy.NewStore(), board: board.New()}
	for _, step := range []func() error{p.loadProfile, p.addStatus, p.addLimits, p.addFleet, p.addRebalancer, p.addGates, p.addWatches, p.addWebhook, p.addDeployments, p.addEnvironments, p.addProbe} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return p.retune, metrics.Registry.Register(&status.Collector{Board: p.board, Clock: clock.RealClock{}})
}

func (p *parts) loadProfile() (err error) {
	p.profile = simulation.DefaultProfile()
	if p.cfg.SchedulerConfig != "" {
		if p.profile, err = simulation.LoadProfile(p.cfg.SchedulerConfig); err != nil {
			return err
		}
	}
	if len(p.profile.Skipped) > 0 {
		p.mgr.GetLogger().Info("Room is proven without these plugins of the scheduler's profile", "plugins", p.profile.Skipped)
	}
	p.kube, err = kubernetes.NewForConfig(p.mgr.GetConfig())
	return err
}

func (p *parts) addStatus() error {
	p.status = status.New(status.Options{
		Client: p.mgr.GetClient(), Kube: p.kube, Board: p.board, Clock: clock.RealClock{},
		Recorder: p.recorder(status.FieldOwner), SchedulerNames: p.profile.SchedulerNames, RepairsPerMinute: repairsOf(p.cfg),
	})
	return p.status.Setup(p.mgr)
}

func (p *parts) addFleet() error {
	classifier, err := arguments.Classifier(p.profile.Args)
	if err != nil {
		return err
	}
	defaults := map[string]*policy.Policy{}
	for name, args := range p.profile.ArgsOf {
		if d := arguments.DefaultPolicy(args); d != nil {
			defaults[name] = d
		}
	}
	p.fleet = clusterstate.New(clusterstate.Options{
		Classifier: classifier, SpreadSpotOver: p.profile.Args.SpreadSpotOver, Prefixes: p.profile.Args.AnnotationPrefixes,
		Mixes: p.store, Defaults: defaults,
		Changed: func(key policy.GroupKey) {
			p.rebalancer.Changed(key)
			p.limits.Changed(key.Namespace)
		},
		NodeLeft: func(name string, t capacity.Type) { p.rebalancer.NodeLeft(name, t) },
	})
	p.limits.Pods = p.fleet
	outage := func(at time.Time) { p.rebalancer.Outage(at) }
	if p.feed, err = state.New(p.mgr.GetConfig(), p.fleet, outage, state.WithTemplates(p.templates)); err != nil {
		return err
	}
	return p.mgr.Add(p.feed)
}

func (p *parts) addRebalancer() error {
	r := p.cfg.Rebalance
	recorder, err := p.moveRecorder()
	if err != nil {
		return err
	}
	p.rebalancer, err = rebalance.New(rebalance.Options{
		Fleet: p.fleet, Board: p.board, Reader: p.mgr.GetClient(), Client: p.kube, Config: p.mgr.GetConfig(), Profile: p.profile,
		Recorder: recorder, Clock: clock.RealClock{},
		Synced: p.synced, Decided: p.status.Decided,
		Journal:    types.NamespacedName{Namespace: p.cfg.LeaderElection.Namespace, Name: p.cfg.LeaderElection.Name + "-moves"},
		Namespaces: p.cfg.Namespaces, Resync: seconds(p.cfg.ResyncSeconds), Grace: seconds(r.StartupGraceSeconds),
		Tuning: rebalanceTuning(p.cfg),
		Storm: decision.StormSettings{
			SharePercent: r.Storm.SharePercent, MinNodes: int(r.Storm.MinNodes), Window: seconds(r.Storm.WindowSeconds), Quiet: seconds(r.Storm.QuietSeconds),
		},
		Placeholders: rebalance.Placeholders{Image: r.PlaceholderImage, SizeOf: p.sizeOf},
	})
	if err != nil {
		return err
	}
	return p.mgr.Add(p.rebalancer)
}

// addGates adds what opens the scheduling gates of pods that no scheduler does.
func (p *parts) addGates() error {
	g := p.cfg.Gates
	lease := types.NamespacedName(p.profile.Lease)
	if g.SchedulerLease.Name != "" {
		lease = types.NamespacedName(g.SchedulerLease)
	}
	p.gates = gatefailopen.New(gatefailopen.Options{
		Fleet: p.fleet, Listed: func() bool { return p.feed.Listed("pods") },
		Kube: p.kube, Recorder: p.recorder(status.FieldOwner), Clock: clock.RealClock{},
		Lease: lease, FailOpen: seconds(g.FailOpenSeconds), Namespaces: p.cfg.Namespaces, DryRun: p.cfg.DryRun,
	})
	return p.mgr.Add(p.gates)
}

// addWatches keeps the store of mixes and the registry of limits up to date, on every replica as the feed
// does, and looks at a namespace again when its disruption budgets change.
func (p *parts) addWatches() error {
	return p.mgr.Add(everywhere(func(ctx context.Context) error {
		if err := p.handle(ctx, &policyv1.PodDisruptionBudget{}, p.budgetHandler()); err != nil {
			return err
		}
		if err := p.handle(ctx, &v1alpha1.ResourceLimit{}, p.limitHandler()); err != nil {
			return err
		}
		p.limitsRead.Store(true)
		return p.handle(ctx, &v1alpha1.CapacityMix{}, p.mixHandler())
	}))
}

func (p *parts) handle(ctx context.Context, kind client.Object, handler toolscache.ResourceEventHandler) error {
	informer, err := p.mgr.GetCache().GetInformer(ctx, kind)
	if err != nil {
		return fmt.Errorf("watch %T: %w", kind, err)
	}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return fmt.Errorf("watch %T: %w", kind, err)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return ctx.Err()
	}
	p.watched.Add(1)
	return nil
}

// watchedKinds is how many kinds addWatches watches.
const watchedKinds = 3

// synced reports whether everything is known that a decision depends on.
func (p *parts) synced() (waitingFor string, ok bool) {
	if p.watched.Load() < watchedKinds {
		return "capacitymixes, poddisruptionbudgets, resourcelimits", false
	}
	return p.feed.Synced()
}

func (p *parts) mixHandler() toolscache.ResourceEventHandler {
	set := func(o any) {
		cm := o.(*v1alpha1.CapacityMix)
		_ = p.store.Set(cm) // an invalid one governs nothing, and its status says so
		p.rebalancer.Changed(policy.GroupKey{Namespace: cm.Namespace})
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: set,
		UpdateFunc: func(before, after any) {
			old, cm := before.(*v1alpha1.CapacityMix), after.(*v1alpha1.CapacityMix)
			if old.UID != cm.UID || old.Generation != cm.Generation { // a change of the status alone is our own
				set(cm)
			}
		},
		DeleteFunc: func(o any) {
			if cm, ok := deleted(o).(*v1alpha1.CapacityMix); ok {
				p.store.Delete(cm.Namespace, cm.Name)
				p.rebalancer.Changed(policy.GroupKey{Namespace: cm.Namespace})
			}
		},
	}
}

func (p *parts) budgetHandler() toolscache.ResourceEventHandler {
	changed := func(o any) {
		if b, ok := deleted(o).(*policyv1.PodDisruptionBudget); ok {
			p.rebalancer.Changed(policy.GroupKey{Namespace: b.Namespace})
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, after any) { changed(after) },
		DeleteFunc: changed,
	}
}

// deleted unwraps what an informer passes when it missed the deletion itself.
func deleted(o any) any {
	if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		return unknown.Obj
	}
	return o
}

func (p *parts) addProbe() error {
	return p.mgr.AddReadyzCheck("feed", func(*http.Request) error {
		if waitingFor, ok := p.synced(); !ok {
			return errors.New("not listed yet: " + waitingFor)
		}
		return nil
	})
}

// everywhere is a runnable that does not wait to lead.
type everywhere func(context.Context) error

var _ manager.LeaderElectionRunnable = everywhere(nil)

// Start implements manager.Runnable.
func (e everywhere) Start(ctx context.Context) error {
	if err := e(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }

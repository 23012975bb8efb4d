// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/limits"
	"berth.dev/berth/controllers/mix/evictions"
	"berth.dev/berth/controllers/mix/floor"
	"berth.dev/berth/controllers/mix/interruptions"
	"berth.dev/berth/controllers/mix/rebalance"
	"berth.dev/berth/controllers/policies"
	"berth.dev/berth/controllers/state"
	"berth.dev/berth/internal/kube/handler"
	"berth.dev/berth/internal/limits/registry"
	"berth.dev/berth/internal/mix/arguments"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/simulation"
)

// cluster is the state that the controllers mix, limits and policies and the webhook share.
type cluster struct {
	profile      *simulation.Profile
	store        *governing.Registry
	registry     *registry.Registry
	clusterState *clusterstate.State
	informers    *state.Informers
	// rebalancer, floors and interruptions are nil where mix does not run, limits and templates where limits does not, policies where
	// policies does not.
	rebalancer    *rebalance.Controller
	floors        *floor.Controller
	interruptions *interruptions.Controller
	pauses        *rebalance.Pauses
	health        *rebalance.HealthGate
	evictions     *evictions.Controller
	limits        *limits.Tracker
	templates     *limits.Templates
	policies      *policies.Controller
	// watched counts the kinds whose handlers have received the first list.
	watched atomic.Int32
	// limitsRead is set once the registry has the first list.
	limitsRead atomic.Bool
}

// addProfile reads the scheduler's configuration: scheduler names, node rules and the filters that prove capacity.
func (p *parts) addProfile() (err error) {
	if err := simulation.SetFeatureGates(p.cfg.SchedulerFeatureGates); err != nil {
		return err
	}
	p.store = governing.NewRegistry()
	p.store.Comparison = simulation.ComparesTolerations()
	p.registry = registry.NewRegistry(p.cfg.Limits.DefaultNamespace)
	p.profile = simulation.DefaultProfile()
	if p.cfg.SchedulerConfig != "" {
		if p.profile, err = simulation.LoadProfile(p.cfg.SchedulerConfig); err != nil {
			return err
		}
	}
	if len(p.profile.Skipped) > 0 {
		p.mgr.GetLogger().Info("Capacity is proven without these plugins of the scheduler's profile", "plugins", p.profile.Skipped)
	}
	return nil
}

// addState adds the informers that fill the cluster state.
func (p *parts) addState() error {
	classifier, err := arguments.Classifier(p.profile.Args)
	if err != nil {
		return err
	}
	filtered := simulation.Filtered
	if !p.cfg.Runs(controller.ControllerMix) {
		filtered = nil // nothing moves
	}
	p.clusterState = clusterstate.New(clusterstate.Options{
		Filtered: filtered, Offerings: offeringsOf(p.cfg),
		Classifier: classifier, SpreadSpotOver: p.profile.Args.SpreadSpotOver,
		Conventions: arguments.Conventions(p.profile.Args),
		Mixes:       p.store, Defaults: arguments.DefaultMixes(p.profile.ArgsOf),
		Changed:  p.groupChanged,
		NodeLeft: p.nodeLeft,
		FloorChanged: func(namespace, label string) {
			if p.floors != nil {
				p.floors.LabelChanged(namespace, label)
			}
		},
	})
	var options []func(*state.Informers)
	if p.limits != nil {
		p.limits.Pods = p.clusterState
		options = append(options, state.WithTemplates(p.templates))
	}
	outage := func(at time.Time) { p.outage(at) }
	if p.informers, err = state.New(p.mgr.GetConfig(), p.clusterState, outage, options...); err != nil {
		return err
	}
	if err := p.mgr.Add(p.informers); err != nil {
		return err
	}
	return p.mgr.AddReadyzCheck("informers", func(*http.Request) error {
		if waitingFor, ok := p.synced(); !ok {
			return errors.New("not listed yet: " + waitingFor)
		}
		return nil
	})
}

// groupChanged requeues a group of pods, or all of a namespace.
func (p *parts) groupChanged(key governing.GroupKey) {
	if p.rebalancer != nil {
		p.rebalancer.Changed(key)
		p.floors.Changed(key)
	}
	if p.evictions != nil {
		p.evictions.PodsChanged(key.Namespace)
	}
	if p.limits != nil {
		p.limits.Changed(key.Namespace)
	}
	if p.policies != nil {
		p.policies.PodsChanged(key.Namespace)
	}
}

func (p *parts) nodeLeft(d clusterstate.Departure) {
	if p.rebalancer != nil {
		p.rebalancer.NodeLeft(d)
	}
	if p.interruptions != nil {
		p.interruptions.NodeLeft(d)
	}
}

func (p *parts) outage(at time.Time) {
	if p.rebalancer != nil {
		p.rebalancer.Outage(at)
	}
}

// addWatches keeps the registries of mixes, limits and policies up to date, on every replica as the
// informers do, and reconciles a namespace when its disruption budgets change.
func (p *parts) addWatches() error {
	return p.mgr.Add(everywhere(func(ctx context.Context) error {
		if err := p.handle(ctx, &policyv1.PodDisruptionBudget{}, p.budgetHandler()); err != nil {
			return err
		}
		if err := p.handle(ctx, &v1alpha1.ResourceLimit{}, p.limitHandler()); err != nil {
			return err
		}
		p.limitsRead.Store(true)
		if p.policies != nil {
			if err := p.handle(ctx, &v1alpha1.SchedulingPolicy{}, p.policyHandler()); err != nil {
				return err
			}
		}
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

// synced reports whether everything is known that a decision depends on.
func (p *parts) synced() (waitingFor string, ok bool) {
	kinds := []string{"capacitymixes", "poddisruptionbudgets", "resourcelimits"}
	if p.policies != nil {
		kinds = append(kinds, "schedulingpolicies")
	}
	if int(p.watched.Load()) < len(kinds) {
		return strings.Join(kinds, ", "), false
	}
	return p.informers.Synced()
}

func (p *parts) hasSynced() bool {
	_, ok := p.synced()
	return ok
}

func (p *parts) mixHandler() toolscache.ResourceEventHandler {
	set := func(cm *v1alpha1.CapacityMix) {
		_ = p.store.Set(cm) // an invalid one governs nothing, and its status reports it
		p.floorChanged(cm, false)
		p.groupChanged(governing.GroupKey{Namespace: cm.Namespace})
	}
	return handler.Funcs[*v1alpha1.CapacityMix]{
		Add: set,
		Update: func(old, cm *v1alpha1.CapacityMix) {
			if old.UID != cm.UID || old.Generation != cm.Generation { // a change of the status alone is our own
				set(cm)
			}
		},
		Delete: func(cm *v1alpha1.CapacityMix) {
			p.store.Delete(cm.Namespace, cm.Name)
			p.floorChanged(cm, true)
			p.groupChanged(governing.GroupKey{Namespace: cm.Namespace})
		},
	}
}

func (p *parts) floorChanged(cm *v1alpha1.CapacityMix, gone bool) {
	if p.floors != nil {
		p.floors.MixChanged(cm, gone)
	}
}

func (p *parts) budgetHandler() toolscache.ResourceEventHandler {
	changed := func(b *policyv1.PodDisruptionBudget) { p.groupChanged(floor.Concerned(b)) }
	return handler.Funcs[*policyv1.PodDisruptionBudget]{Add: changed, Delete: changed}
}

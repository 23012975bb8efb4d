// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/floor"
	"berth.dev/berth/controllers/mix/gatefailopen"
	"berth.dev/berth/controllers/mix/interruptions"
	"berth.dev/berth/controllers/mix/rebalance"
	"berth.dev/berth/controllers/mix/status"
	"berth.dev/berth/controllers/mix/workloads"
	decisions "berth.dev/berth/internal/mix/floor"
	"berth.dev/berth/internal/mix/governing"
	counting "berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/internal/records/prometheus"
)

// resyncsPerFind is how many times every workload is reconciled until it is read again which autoscalers there are: after
// five minutes by default.
const resyncsPerFind = 10

// addMix adds the controllers of CapacityMixes: status, rebalancer and the removal of gates that no scheduler removes.
func (p *parts) addMix() error {
	entries := workloads.NewStore()
	s := status.New(status.Options{
		Client: p.mgr.GetClient(), Kube: p.kube, Workloads: entries, Mixes: p.store, Clock: clock.RealClock{},
		Recorder: p.recorder(status.FieldOwner), SchedulerNames: p.profile.SchedulerNames, RepairsPerMinute: repairsOf(p.cfg),
		Residents: p.clusterState.Residents, ScaleIn: p.cfg.Mix.ScaleIn,
		FindAutoscalersEvery: resyncsPerFind * seconds(p.cfg.ResyncSeconds),
		Floors:               func(namespace, mix string) []decisions.Report { return p.floors.Reports(namespace, mix) },
	})
	p.floors = p.newFloors(entries, s)
	if err := p.addEvictions(); err != nil {
		return err
	}
	var err error
	if p.rebalancer, err = p.newRebalancer(entries, s); err != nil {
		return err
	}
	gates := p.newGates()
	if err := p.mgr.Add(p.pauses); err != nil {
		return err
	}
	if p.health != nil {
		if err := p.mgr.Add(p.health); err != nil {
			return err
		}
	}
	if err := p.addInterruptions(); err != nil {
		return err
	}
	if err := p.addSavings(entries); err != nil {
		return err
	}
	if err := metrics.Registry.Register(p.rebalancer); err != nil {
		return err
	}
	for _, c := range []interface {
		SetupWithManager(mgr manager.Manager) error
	}{s, p.rebalancer, p.floors, gates} {
		if err := c.SetupWithManager(p.mgr); err != nil {
			return err
		}
	}
	p.retunes = append(p.retunes, func(cfg *controller.Configuration) {
		s.SetRepairs(repairsOf(cfg)) // before the decisions that it is for
		s.SetScaleIn(cfg.Mix.ScaleIn)
		gates.SetDryRun(cfg.DryRun)
		p.floors.SetDryRun(cfg.DryRun)
		p.interruptions.SetDryRun(cfg.DryRun)
		p.rebalancer.Retune(rebalance.TuningOf(cfg))
	})
	return nil
}

// addInterruptions adds the controller that counts the interruptions of spot nodes.
func (p *parts) addInterruptions() error {
	i := p.cfg.Mix.Interruptions
	p.interruptions = interruptions.New(interruptions.Options{
		State: p.clusterState, Client: p.kube, Clock: clock.RealClock{}, Synced: p.synced,
		ConfigMap: types.NamespacedName{
			Namespace: p.cfg.LeaderElection.Namespace, Name: p.cfg.LeaseName() + v1alpha1.InterruptionsConfigMapSuffix,
		},
		Keys: p.profile.Args.SpreadSpotOver,
		Settings: counting.Settings{
			SharePercent: i.SharePercent, Quarantine: seconds(i.QuarantineSeconds), Longest: seconds(i.MaxQuarantineSeconds),
		},
		DryRun: p.cfg.DryRun,
	})
	if err := metrics.Registry.Register(p.interruptions); err != nil {
		return err
	}
	return p.mgr.Add(p.interruptions)
}

// quarantine returns the interruption domains in quarantine. The controller that counts interruptions is added after the rebalancer.
func (p *parts) quarantine(ctx context.Context) *counting.Quarantine {
	return p.interruptions.Quarantine(ctx)
}

func (p *parts) newRebalancer(entries *workloads.Store, s *status.Controller) (*rebalance.Controller, error) {
	recorder, err := p.moveRecorder()
	if err != nil {
		return nil, err
	}
	p.pauses = rebalance.NewPauses(p.kube, types.NamespacedName{
		Namespace: p.cfg.LeaderElection.Namespace, Name: p.cfg.LeaseName() + v1alpha1.PauseConfigMapSuffix,
	}, p.pauseChanged)
	if p.health, err = p.newHealthGate(); err != nil {
		return nil, err
	}
	o := rebalance.Configured(p.cfg)
	o.Pauses, o.Health, o.Requests, o.Quarantine = p.pauses, p.health, p.evictions, p.quarantine
	o.State, o.Workloads, o.Reader, o.Client, o.Config = p.clusterState, entries, p.mgr.GetClient(), p.kube, p.mgr.GetConfig()
	o.Profile, o.Recorder, o.Clock = p.profile, recorder, clock.RealClock{}
	o.Synced, o.Decided = p.synced, s.Decided
	o.Journal = types.NamespacedName{Namespace: p.cfg.LeaderElection.Namespace, Name: p.cfg.LeaseName() + "-moves"}
	o.Placeholders.SizeOf = p.sizeOf
	return rebalance.New(o)
}

// newFloors returns the controller of spec.protectFloor. A status that is composed before every workload was reconciled misses some.
func (p *parts) newFloors(entries *workloads.Store, s *status.Controller) *floor.Controller {
	return floor.New(floor.Options{
		State: p.clusterState, Synced: p.synced, Reader: p.mgr.GetClient(), Kube: p.kube, Clock: clock.RealClock{},
		Decided: func(d workloads.Decision) {
			if entries.Complete() {
				s.Decided(d)
			}
		},
		Namespaces: p.cfg.Namespaces, DryRun: p.cfg.DryRun,
	})
}

// pauseChanged has the workloads reconciled that a pause is about.
func (p *parts) pauseChanged(key governing.GroupKey) { p.rebalancer.Changed(key) }

// newHealthGate returns the gate that is configured, nil for none.
func (p *parts) newHealthGate() (*rebalance.HealthGate, error) {
	g := &p.cfg.Mix.Rebalance.HealthGate
	if g.PrometheusURL == "" {
		return nil, nil
	}
	server, err := prometheus.New(prometheus.Config{
		Address: g.PrometheusURL, BearerTokenFile: g.BearerTokenFile, CAFile: g.CAFile, Timeout: seconds(g.TimeoutSeconds),
	})
	if err != nil {
		return nil, fmt.Errorf("mix.rebalance.healthGate: %w", err)
	}
	query := func(ctx context.Context) (bool, string, error) { return server.Holds(ctx, g.Query, time.Now()) }
	return rebalance.NewHealthGate(query, seconds(g.IntervalSeconds), clock.RealClock{}, func() {
		p.rebalancer.Changed(governing.GroupKey{})
	}), nil
}

// newGates returns the controller that removes the scheduling gates of pods while no scheduler does.
func (p *parts) newGates() *gatefailopen.Controller {
	g := p.cfg.Mix.Gates
	lease := types.NamespacedName(p.profile.Lease)
	if g.SchedulerLease.Name != "" {
		lease = types.NamespacedName(g.SchedulerLease)
	}
	return gatefailopen.New(gatefailopen.Options{
		State: p.clusterState, Listed: func() bool { return p.informers.Listed("pods") },
		Kube: p.kube, Recorder: p.recorder(status.FieldOwner), Clock: clock.RealClock{},
		Lease: lease, FailOpen: seconds(g.FailOpenSeconds), Namespaces: p.cfg.Namespaces, DryRun: p.cfg.DryRun,
	})
}

func repairsOf(cfg *controller.Configuration) int {
	if cfg.DryRun {
		return 0
	}
	return int(cfg.Mix.AnnotationRepairsPerMinute)
}

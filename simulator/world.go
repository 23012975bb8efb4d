// SPDX-License-Identifier: Apache-2.0

// Package simulator runs workloads, node pools and interruptions by a clock of its own, with the scheduler and the rebalancer of Berth as
// they are: docs/simulation.md. There is no API server: clients talk to package api, which has the objects of package store.
package simulator

import (
	"context"
	"fmt"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/handler"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/sim/report"
	"berth.dev/berth/internal/sim/scenario"
	"berth.dev/berth/scheduler/stepped"
	"berth.dev/berth/simulator/api"
	"berth.dev/berth/simulator/clock"
	"berth.dev/berth/simulator/store"
)

// start is when a simulation begins: a Thursday, which counts for the windows of mixes only.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	// attempt is how long the scheduler takes for a pod.
	attempt = time.Millisecond
	// checkEvery is how many steps there are between two looks at the context.
	checkEvery = 1024
)

// world is a cluster in a simulation. It is for one goroutine.
type world struct {
	*scenario.Scenario
	policy Policy
	clock  *clock.Clock
	store  *store.Store
	api    *api.Server
	client kubernetes.Interface

	scheduler *stepped.Scheduler
	// rebalancer is nil where no mix is kept.
	rebalancer *rebalancer

	pools []*pool
	nodes map[string]*node
	// types are those of all nodes, also of those that are gone: their pods may not be.
	types     map[string]capacity.Type
	workloads []*workload
	// owners has the workloads by the UIDs of their ReplicaSets, apps by their names.
	owners map[types.UID]*workload
	apps   map[types.NamespacedName]*workload
	// unbound are the pods without a node.
	unbound map[types.UID]*corev1.Pod
	// launching is how many nodes were requested that are not there yet.
	launching int
	// scan is set while the autoscaler is to look for pods without capacity.
	scan    bool
	measure measure
	failed  error
}

// Run simulates a scenario under a policy. It calls progress with the simulated time now and then.
func Run(ctx context.Context, s *scenario.Scenario, p Policy, progress func(time.Duration)) (*report.Run, error) {
	w, err := simulated(ctx, s, p, progress, func(*world) {})
	if err != nil {
		return nil, err
	}
	return w.measure.run(w), nil
}

// simulated returns the world of a scenario at its end. It calls prepare before the time passes.
func simulated(ctx context.Context, s *scenario.Scenario, p Policy, progress func(time.Duration), prepare func(*world)) (*world, error) {
	w, err := newWorld(ctx, s, p)
	if err != nil {
		return nil, err
	}
	defer w.scheduler.Close()
	prepare(w)
	if err := w.run(ctx, progress); err != nil {
		return nil, fmt.Errorf("policy %s, after %s: %w", p.Name, w.clock.Since(start).Round(time.Second), err)
	}
	for request := range w.api.Refused() {
		if !absent.MatchString(request) {
			return nil, fmt.Errorf("policy %s: the simulation does not serve %s", p.Name, request)
		}
	}
	return w, nil
}

// absent are the lists of kinds that a snapshot has none of where an API server does not serve them.
var absent = regexp.MustCompile(`^GET /apis/(berth\.dev/v1alpha1/(reservations|resourcelimits)|resource\.k8s\.io/v1/[a-z]+)$`)

func newWorld(ctx context.Context, s *scenario.Scenario, p Policy) (*world, error) {
	w := &world{
		Scenario: s, policy: p, clock: clock.New(start), nodes: map[string]*node{}, types: map[string]capacity.Type{},
		owners:  map[types.UID]*workload{},
		unbound: map[types.UID]*corev1.Pod{}, apps: map[types.NamespacedName]*workload{},
	}
	w.store = store.New(w.clock)
	w.api = &api.Server{Store: w.store, Cluster: cluster{w}}
	config := w.api.Config()
	var err error
	if w.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	// The world sees a change before the scheduler, which may act on it at once.
	w.store.Watch(&corev1.Pod{}, handler.Funcs[*corev1.Pod]{
		Add: func(pod *corev1.Pod) { w.podChanged(nil, pod) }, Update: w.podChanged, Delete: w.podGone,
	})
	if p.Mixes {
		if w.rebalancer, err = newRebalancer(w, config); err != nil {
			return nil, err
		}
	}
	o := stepped.Options{Clock: w.clock, Client: w.client, Informers: w.store.Factory(w.client)}
	if w.scheduler, err = stepped.New(ctx, o); err != nil {
		return nil, err
	}
	w.store.Watch(&v1alpha1.CapacityMix{}, w.scheduler.Mix.MixHandler())
	w.measure.begin(w)
	w.addPools()
	w.addWorkloads()
	return w, nil
}

// run lets the time of the scenario pass.
func (w *world) run(ctx context.Context, progress func(time.Duration)) error {
	end := start.Add(w.Duration.Duration)
	for n := 0; w.failed == nil; n++ {
		if n%checkEvery == 0 {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			progress(w.clock.Since(start))
		}
		if !w.step(ctx, end) {
			break
		}
	}
	return w.failed
}

// step does what is due, or lets the time pass until something is. It returns false at the end. Events that are due come first: the
// scheduler may always have pods to try.
func (w *world) step(ctx context.Context, end time.Time) bool {
	now := w.clock.Now()
	next, more := w.clock.Next()
	switch {
	case !now.Before(end):
		return false
	case more && !next.After(now):
		w.clock.Step()
		return true
	case w.rebalancer.step(ctx):
		return true
	case len(w.unbound) > 0 && w.scheduler.Step():
		w.clock.Pass(attempt)
		return true
	}
	if !more {
		next = end
	}
	w.clock.Pass(earliest(end, next, w.rebalancer.next(), w.window(now)).Sub(now))
	return true
}

// earliest returns the first of some times. Those that are zero are none.
func earliest(first time.Time, others ...time.Time) time.Time {
	for _, at := range others {
		if !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}

// window is when the scheduling queue looks at the pods that wait, the zero time if none does.
func (w *world) window(now time.Time) time.Time {
	if len(w.unbound) == 0 {
		return time.Time{}
	}
	return now.Truncate(stepped.Window).Add(stepped.Window)
}

// after has a function called after a while.
func (w *world) after(d time.Duration, call func()) { w.clock.AfterFunc(d, call) }

// seconds is a number of seconds of a scenario.
func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// stamp is the time in the objects of the cluster.
func (w *world) stamp() metav1.Time { return metav1.NewTime(w.clock.Now().Truncate(time.Second)) }

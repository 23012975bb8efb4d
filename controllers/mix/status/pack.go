// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/scalein"
)

// packTick is how often it is checked which workloads are due.
const packTick = time.Second

// errChanged is that a pod is not as the exchange was decided for.
var errChanged = errors.New("the pod has changed")

// SetScaleIn has replicas exchange their slots from now on, or keep them.
func (r *Controller) SetScaleIn(s controller.ScaleIn) { r.packing.scaleIn.Store(s) }

// packAll has all workloads considered: before, nothing was exchanged.
func (r *Controller) packAll() {
	now := r.Clock.Now()
	for _, e := range r.Workloads.All() {
		r.packing.decided(&e, now)
	}
}

// delayed reports whether it is to be seen later whether replicas exchange their slots: no autoscaler was looked for yet, or there is a
// spot storm.
func (r *Controller) delayed() bool {
	return r.Workloads.Storm() || r.packing.scaleIn.Load() == controller.ScaleInAuto && r.autoscalers() == nil
}

// packs reports whether replicas exchange their slots. Without an autoscaler no empty node is removed, and replicas on few nodes only fail
// together. Without repairs nothing would complete an exchange that was interrupted.
func (r *Controller) packs() bool {
	found := r.autoscalers()
	switch r.packing.scaleIn.Load() {
	case controller.ScaleInPack:
	case controller.ScaleInAuto:
		if found == nil || !found.Any() {
			return false
		}
	default:
		return false
	}
	return r.repairs.Limit() > 0
}

// wakePacking queues the namespaces with workloads that are due, until the context ends. It runs on the leader.
func (r *Controller) wakePacking(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		r.contest.sweep(r.Workloads, r.Clock.Now())
		for _, namespace := range r.packing.namespaces(r.Clock.Now()) {
			cm := &v1alpha1.CapacityMix{}
			cm.Namespace = namespace
			select {
			case r.decided <- event.GenericEvent{Object: cm}:
			case <-ctx.Done():
			}
		}
	}, packTick)
	return nil
}

// pack has the replicas of the workloads of a namespace that are due exchange their slots.
func (r *Controller) pack(ctx context.Context, namespace string) {
	for _, key := range r.packing.take(namespace, r.Clock.Now()) {
		if e, known := r.Workloads.Get(key); known {
			if at := r.packGroup(ctx, &e); !at.IsZero() {
				r.packing.goOn(&e, at, r.Clock.Now())
			}
		}
	}
}

// packGroup returns when the rest of the exchanges of a workload may follow; zero if nothing is left, or if it has to be decided again.
func (r *Controller) packGroup(ctx context.Context, e *rebalance.Entry) (next time.Time) {
	g, now := &e.Group, r.Clock.Now()
	switch {
	case r.delayed():
		return now.Add(leastQuiet)
	case !r.packs():
		return time.Time{}
	case r.packing.unseen(g, now):
		return now.Add(packTick)
	case !r.packable(e):
		return r.afterCosts(e, now)
	}
	return r.exchangeAll(ctx, g, now)
}

// afterCosts returns when a workload whose replicas cannot exchange slots is considered again: soon if only its deletion costs have to be
// restored before, which Karpenter overwrites each minute. Zero if it has to be decided again.
func (r *Controller) afterCosts(e *rebalance.Entry, now time.Time) (next time.Time) {
	if undisturbed(e) && !limited(&e.Group) && r.costsWrong(&e.Group) {
		return now.Add(leastQuiet)
	}
	return time.Time{}
}

// exchangeAll makes the exchanges of a workload, and returns when the rest of them may follow, as packGroup does.
func (r *Controller) exchangeAll(ctx context.Context, g *clusterstate.Group, now time.Time) (next time.Time) {
	left, until := r.packing.left(g.Key, len(g.Assignments), now)
	swaps := scalein.Swaps(sidesOf(g), r.nodeOf(g), left+1) // with one more, it is visible whether the limit matters
	for i, s := range swaps {
		if i == left {
			return until
		}
		if at := r.contested(s, now); at.After(now) {
			return at
		}
		if !r.mayExchange() {
			return now.Add(soon)
		}
		if err := r.exchange(ctx, g, s); err != nil {
			return r.failed(ctx, g, s, err)
		}
	}
	return time.Time{}
}

// mayExchange takes two writes of the rate of repairs, and leaves half of what may be written at once: repairs do not wait for exchanges.
// The second write is not delayed, but those after it are.
func (r *Controller) mayExchange() bool {
	if r.repairs.Tokens() < 1+float64(r.repairs.Burst()/2) || !r.repairs.Allow() {
		return false
	}
	r.repairs.Reserve()
	return true
}

// failed returns when an exchange that failed is tried again. One of pods that have changed is decided again.
func (r *Controller) failed(ctx context.Context, g *clusterstate.Group, s scalein.Swap, err error) (next time.Time) {
	if errors.Is(err, errChanged) {
		return next
	}
	log.FromContext(ctx).Error(err, "Cannot exchange the slots of two pods", "workload", g.Workload.String(), "namespace", g.Key.Namespace,
		"slots", []int{s.First.From, s.First.To})
	return r.Clock.Now().Add(soon)
}

// packable reports whether nothing is going on in a workload: all of its replicas are Ready, in place and of the type of their slots,
// which are those below its size and on the pods, with the deletion costs of Berth. Replicas with a hard limit for each domain keep their
// slots: on few nodes, those that a scale-in leaves would exceed it.
func (r *Controller) packable(e *rebalance.Entry) bool {
	g := &e.Group
	if !ordered(g) || limited(g) || !undisturbed(e) {
		return false
	}
	for i := range g.Assignments {
		s := &g.Assignments[i]
		if s.Slot != i || s.Place != clusterstate.Settled || s.Borrowed() || !r.exchangeable(g, s) {
			return false
		}
	}
	return true
}

// undisturbed reports whether a workload has all of its replicas, and none comes, goes or moves.
func undisturbed(e *rebalance.Entry) bool {
	g := &e.Group
	return e.Settled() && g.Satisfied() && !g.Rollout.Rolling && g.Terminating == 0 && len(g.Leaving) == 0 &&
		g.Replicas == len(g.Assignments)
}

// exchangeable reports whether a replica has the slot that Berth gave it, and the deletion cost of the slot, whoever wrote that. The cost
// that a user chose stays, so it has no such slot.
func (r *Controller) exchangeable(g *clusterstate.Group, s *clusterstate.Assignment) bool {
	p := s.Pod
	return p.Ready && p.CostOrigin != clusterstate.CostOfUser && r.steers(p) && len(differing(p, false, s.Slot, g.Governing)) == 0
}

func sidesOf(g *clusterstate.Group) []scalein.Pod {
	pods := make([]scalein.Pod, len(g.Assignments))
	for i := range g.Assignments {
		s := &g.Assignments[i]
		pods[i] = scalein.Pod{ID: string(s.Pod.UID), Slot: s.Slot, Type: s.On, Node: s.Pod.Node}
	}
	return pods
}

// nodeOf returns what counts of the nodes of a group.
func (r *Controller) nodeOf(g *clusterstate.Group) func(string) scalein.Node {
	own := map[string]int{}
	for i := range g.Assignments {
		own[g.Assignments[i].Pod.Node]++
	}
	return func(name string) scalein.Node {
		n, pods := r.Residents(name)
		return scalein.Node{Domain: n.Domain, Others: max(0, pods-own[name]), Closed: !n.Accepting}
	}
}

// contested returns until when an exchange waits because another client undoes what was written on one of the pods.
func (r *Controller) contested(s scalein.Swap, now time.Time) (until time.Time) {
	for _, c := range []scalein.Change{s.First, s.Second} {
		if at, _ := r.contest.allow(types.UID(c.ID), slotted(c.To), now); at.After(until) {
			until = at
		}
	}
	return until
}

// slotted are the annotations of a slot that differ between slots of one type.
func slotted(slot int) map[string]string {
	return map[string]string{v1alpha1.SlotAnnotation: fmt.Sprint(slot), v1alpha1.PodDeletionCostAnnotation: governing.DeletionCost(slot)}
}

// exchange writes the slots of two pods, each with one patch. Both are as they were decided for before the first is written. Where the
// second one cannot be written, the repair of annotations completes or undoes the exchange: the older pod keeps the slot that both have.
func (r *Controller) exchange(ctx context.Context, g *clusterstate.Group, s scalein.Swap) error {
	ctx, cancel := context.WithTimeout(ctx, repairTimeout)
	defer cancel()
	if _, err := r.holding(ctx, g, s.Second); err != nil {
		return err
	}
	if err := r.take(ctx, g, s.First); err != nil {
		return err
	}
	r.packing.begin(g.Key, r.Clock.Now())
	if err := r.take(ctx, g, s.Second); err != nil {
		return err
	}
	r.packing.wrote(g.Key, s, r.Clock.Now())
	exchanges.Inc()
	log.FromContext(ctx).V(4).Info("Exchanged the slots of two pods", "workload", g.Workload.String(), "namespace", g.Key.Namespace,
		"slots", []int{s.First.From, s.First.To})
	return nil
}

// take writes a slot on a pod that has the one before. The kubelet may write the pod at the same time.
func (r *Controller) take(ctx context.Context, g *clusterstate.Group, c scalein.Change) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error { return r.patchSlot(ctx, g, c) })
}

func (r *Controller) patchSlot(ctx context.Context, g *clusterstate.Group, c scalein.Change) error {
	pod, err := r.holding(ctx, g, c)
	if err != nil {
		return err
	}
	want := slotted(c.To)
	gone, err := r.annotate(ctx, pod, want)
	if err != nil {
		return err
	}
	if gone {
		return errChanged
	}
	r.contest.exchanged(pod.UID, want, r.Clock.Now())
	return nil
}

// holding returns a pod as it is now, if it holds the slot from which it changes.
func (r *Controller) holding(ctx context.Context, g *clusterstate.Group, c scalein.Change) (*corev1.Pod, error) {
	record := recordOf(g, c.ID)
	pod, err := r.Kube.CoreV1().Pods(record.Namespace).Get(ctx, record.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, errChanged
	}
	if err != nil {
		return nil, fmt.Errorf("read pod %s/%s: %w", record.Namespace, record.Name, err)
	}
	origin, _ := clusterstate.CostWriter(pod)
	if !unchanged(pod, record) || origin == clusterstate.CostOfUser || len(differing(live{pod}, false, c.From, g.Governing)) > 0 {
		return nil, errChanged
	}
	return pod, nil
}

func recordOf(g *clusterstate.Group, id string) *clusterstate.Pod {
	for i := range g.Assignments {
		if p := g.Assignments[i].Pod; string(p.UID) == id {
			return p
		}
	}
	return nil
}

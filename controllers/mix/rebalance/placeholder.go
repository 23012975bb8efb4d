// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/placeholder"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/internal/mix/rebalance"
)

const (
	// holdAssignment is how long a replica waits whose placeholder runs where the
	// replacement does not fit: other pods on the node may go.
	holdAssignment = 10 * time.Second
	// unseen is how long the watch may take to show a placeholder.
	unseen = 30 * time.Second
)

// placeholdersIn returns the placeholders of a namespace, but for those that were deleted and whose end the watch has not
// shown yet. A pod that another user gave the label is none. With --dry-run there are none: those of an earlier run are left
// alone.
func (c *Controller) placeholdersIn(namespace string) []*clusterstate.Pod {
	if c.DryRun {
		return nil
	}
	return slices.DeleteFunc(c.State.Placeholders(namespace), func(h *clusterstate.Pod) bool {
		_, deleted := c.released[h.UID]
		return deleted || h.Name != placeholder.Name(replicaOf(h))
	})
}

// forgetReleased forgets the placeholders that the watch must have shown to be gone.
func (c *Controller) forgetReleased(now time.Time) {
	maps.DeleteFunc(c.released, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= unseen })
}

// replicaOf is the UID of the replica that a placeholder was created for.
func replicaOf(h *clusterstate.Pod) types.UID { return types.UID(h.Labels[v1alpha1.PlaceholderLabel]) }

// adopt brings the placeholders of a workload up to what is there, and finds
// those that an earlier leader created. It is a pure function.
func adopt(e *workloads.Entry, there []*clusterstate.Pod, now time.Time) []workloads.Placeholder {
	if len(e.Placeholders) == 0 && len(there) == 0 {
		return nil
	}
	byUID := make(map[types.UID]*clusterstate.Pod, len(there))
	for _, h := range there {
		byUID[h.UID] = h
	}
	known := moved(e.Moves)
	var list []workloads.Placeholder
	for _, h := range e.Placeholders {
		if o := byUID[h.UID]; o != nil {
			h.Seen, h.Running, h.Lost = true, o.Running, !o.Live()
		} else {
			h.Lost = h.Seen || now.Sub(h.Created) >= unseen
		}
		h.Slow = now.Sub(h.Created) >= rebalance.SlowAfter
		known[h.Replica] = true
		list = append(list, h)
	}
	names := make(map[types.UID]string, len(e.Group.Assignments))
	for _, s := range e.Group.Assignments {
		names[s.Pod.UID] = s.Pod.Name
	}
	for _, h := range there {
		replica := replicaOf(h)
		name, mine := names[replica]
		if !mine || known[replica] || h.Terminating {
			continue
		}
		target, _ := capacity.ParseType(h.Annotations[v1alpha1.CapacityTypeAnnotation]) // Unknown is wanted by no one
		created := time.Unix(0, h.Created)
		list = append(list, workloads.Placeholder{
			UID: h.UID, Namespace: h.Namespace, Name: h.Name, Replica: replica, ReplicaName: name, Seen: true,
			Slow:   now.Sub(created) >= rebalance.SlowAfter,
			Holder: rebalance.Holder{Target: target, Created: created, Running: h.Running, Lost: !h.Live()},
		})
	}
	return list
}

// nextSteps takes the next step with each placeholder of a workload.
func (c *Controller) nextSteps(ctx context.Context, w *evaluation) {
	for _, h := range w.Placeholders {
		step, v := c.stepOf(w, h)
		switch step {
		case rebalance.StepMove:
			w.holdBack(c.moveTo(ctx, w, v, h))
		case rebalance.StepDrop:
			c.end(ctx, w, h, holderDropped)
		case rebalance.StepFail:
			c.end(ctx, w, h, holderExpired)
			c.limits().failed(&w.Entry, h.Created, w.now)
			c.ended(ctx, &w.Entry, ending{outcome: notProvisioned})
		case rebalance.StepWait:
		}
		w.dueAt(v.RetryAt)
	}
}

// stepOf is the next step with a placeholder, and the verdict about its replica.
func (c *Controller) stepOf(w *evaluation, h workloads.Placeholder) (rebalance.Step, rebalance.Verdict) {
	in := c.input(w)
	if held, there := w.Held[string(h.Replica)]; there {
		in.Skip[string(h.Replica)] = held.Verdict
	}
	return in.Next(h.Replica, h.Holder, c.MoveTimeout)
}

// explain notes what keeps the replicas of the placeholders of a workload. It comes last: what this reconcile held back
// counts, for there may be no other one before the hold is over.
func (c *Controller) explain(w *evaluation) {
	w.Placeholders = waiting(w.Placeholders, func(h workloads.Placeholder) rebalance.Verdict {
		_, v := c.stepOf(w, h)
		return v
	})
}

// waiting notes what keeps the replicas of placeholders.
func waiting(list []workloads.Placeholder, verdict func(workloads.Placeholder) rebalance.Verdict) []workloads.Placeholder {
	list = slices.Clone(list)
	for i := range list {
		v := verdict(list[i])
		if list[i].Waits = ""; v.Reason != rebalance.ReasonMove {
			list[i].Waits = fmt.Sprintf("%s: %s", v.Reason, v.Message)
		}
	}
	return list
}

// moveTo evicts a replica whose placeholder runs, if the replacement fits in the
// place of the placeholder. It returns nil if it is on its way, else a hold.
func (c *Controller) moveTo(ctx context.Context, w *evaluation, v rebalance.Verdict, h workloads.Placeholder) *workloads.Hold {
	node, hold := c.prove(ctx, w, v, h.UID)
	if hold != nil {
		if hold.Verdict.Reason == rebalance.ReasonInsufficientCapacity {
			hold.Until = w.now.Add(holdAssignment)
			hold.Verdict.RetryAt = hold.Until
			if c.misplaced(ctx, w, v, h) {
				c.end(ctx, w, h, holderDropped)
			}
		}
		return hold
	}
	when := rebalance.HandoverOf(&w.Group, h.Target)
	again := func() rebalance.Verdict { _, v := c.stepOf(w, h); return v }
	if when == rebalance.BeforeEviction {
		if _, hold = c.confirm(ctx, w, v, again); hold != nil {
			return hold
		}
		if !c.end(ctx, w, h, holderUsed) {
			return w.hold(v, ReasonCapacityUnproven, holdAssignment, "placeholder %s could not be deleted", h.Name)
		}
	}
	if hold = c.evict(ctx, w, v, node, again); hold != nil {
		return hold
	}
	switch when {
	case rebalance.BeforeEviction:
	case rebalance.AfterEviction:
		c.end(ctx, w, h, holderUsed)
	case rebalance.OnceGone:
		w.Moves[len(w.Moves)-1].Placeholder = h.UID // evict has made this slice
		w.Placeholders = without(w.Placeholders, h)
		placeholders.WithLabelValues(holderUsed).Inc()
	}
	return nil
}

// end takes a placeholder away, and reports whether it is gone.
func (c *Controller) end(ctx context.Context, w *evaluation, h workloads.Placeholder, result string) bool {
	w.Placeholders = without(w.Placeholders, h)
	placeholders.WithLabelValues(result).Inc()
	return c.release(ctx, h.Namespace, h.Name, h.UID, result)
}

func without(list []workloads.Placeholder, h workloads.Placeholder) []workloads.Placeholder {
	return slices.DeleteFunc(slices.Clone(list), func(o workloads.Placeholder) bool { return o.UID == h.UID })
}

// release deletes a placeholder. Where that fails, the namespace is reconciled again.
func (c *Controller) release(ctx context.Context, namespace, name string, uid types.UID, why string) bool {
	err := c.write(ctx, func(ctx context.Context) error {
		return c.Client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		log.FromContext(ctx).Error(err, "Cannot delete a placeholder", "placeholder", name)
		c.queue.AddAfter(policy.GroupKey{Namespace: namespace}, holdAssignment)
		return false
	}
	c.released[uid] = c.Clock.Now()
	c.queue.AddAfter(policy.GroupKey{Namespace: namespace}, unseen) // if it is still there, it is deleted again
	log.FromContext(ctx).Info("Deleted a placeholder", "placeholder", name, "why", why)
	return true
}

// sweep deletes the placeholders of a namespace that no one needs: those of replicas that are gone, and those that an earlier
// leader left. One whose replica is there is left to the reconcile of the replica's workload, which may take it over.
func (c *Controller) sweep(ctx context.Context, key policy.GroupKey) {
	there := c.State.Placeholders(key.Namespace)
	if len(there) == 0 || c.DryRun {
		return
	}
	needed, used := c.claimed(key.Namespace)
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("namespace", key.Namespace))
	for _, h := range there {
		deleted, gone := c.released[h.UID]
		switch {
		case gone: // the reconcile after a later deletion may have been queued already
			c.queue.AddAfter(policy.GroupKey{Namespace: key.Namespace}, deleted.Add(unseen).Sub(c.Clock.Now()))
		case needed[h.UID], h.Terminating, h.Name != placeholder.Name(replicaOf(h)):
		case used[h.UID]:
			c.release(ctx, h.Namespace, h.Name, h.UID, holderUsed)
		case c.ofAnother(h, key):
		default:
			placeholders.WithLabelValues(holderDropped).Inc()
			c.release(ctx, h.Namespace, h.Name, h.UID, holderDropped)
		}
	}
}

// claimed returns the placeholders that the workloads of a namespace need, and those that a move has used.
func (c *Controller) claimed(namespace string) (needed, used map[types.UID]bool) {
	needed, used = map[types.UID]bool{}, map[types.UID]bool{}
	for _, e := range c.Workloads.Namespace(namespace) {
		for _, h := range e.Placeholders {
			needed[h.UID] = true
		}
		for _, m := range e.Moves {
			used[m.Placeholder] = true
			if old := c.State.Pod(m.Namespace, m.Name); old != nil && old.UID == m.UID {
				needed[m.Placeholder] = true
			}
		}
	}
	return needed, used
}

// ofAnother reports whether the replica of a placeholder belongs to another workload than that of a key.
func (c *Controller) ofAnother(h *clusterstate.Pod, key policy.GroupKey) bool {
	return slices.ContainsFunc(c.State.Current(key.Namespace),
		func(g *clusterstate.Group) bool { return g.Key != key && has(g, replicaOf(h)) })
}

// has reports whether a pod is a replica of a group.
func has(g *clusterstate.Group, pod types.UID) bool {
	return slices.ContainsFunc(g.Assignments, func(s clusterstate.Assignment) bool { return s.Pod.UID == pod })
}

// limits are the times of moves.
func (c *Controller) limits() limits {
	return limits{backoff: c.Backoff, maxBackoff: c.MaxBackoff, timeout: c.MoveTimeout}
}

// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/placeholder"
	"berth.dev/berth/internal/mix/rebalance"
)

const (
	// holdAssignment is how long a replica waits whose placeholder runs where the
	// replacement does not fit: other pods on the node may go.
	holdAssignment = 10 * time.Second
)

// holders creates and deletes placeholders.
type holders struct {
	*Options
	api *calls
	// again reconciles a namespace after a time.
	again func(key governing.GroupKey, after time.Duration)
	// released are the placeholders that were deleted lately, and when.
	released map[types.UID]time.Time
}

// placeholdersIn returns the placeholders of a namespace, but for those that were deleted and whose end the watch has not
// shown yet. A pod that only has the label is none. With --dry-run there are none: those of an earlier run are left
// alone.
func (hs *holders) placeholdersIn(namespace string) []*clusterstate.Pod {
	if hs.DryRun {
		return nil
	}
	return slices.DeleteFunc(hs.State.Placeholders(namespace), func(h *clusterstate.Pod) bool {
		_, deleted := hs.released[h.UID]
		return deleted || h.Name != placeholder.Name(rebalance.ReplicaOf(h))
	})
}

// forgetReleased forgets the placeholders that the watch must have shown to be gone.
func (hs *holders) forgetReleased(now time.Time) {
	maps.DeleteFunc(hs.released, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= rebalance.Unseen })
}

// nextSteps takes the next step with each placeholder of a workload.
func (c *Controller) nextSteps(ctx context.Context, w *evaluation) {
	for _, h := range w.Placeholders {
		step, v := c.stepOf(w, h)
		switch step {
		case rebalance.StepMove:
			w.HoldBack(c.moveTo(ctx, w, v, h))
		case rebalance.StepDrop:
			c.end(ctx, w, h, holderDropped)
		case rebalance.StepFail:
			c.end(ctx, w, h, holderExpired)
			c.limits().Failed(&w.Entry, h.Created, w.now)
			c.out.ended(ctx, &w.Entry, rebalance.Ending{Outcome: rebalance.NotProvisioned})
		case rebalance.StepWait:
		}
		w.dueAt(v.RetryAt)
	}
}

// stepOf is the next step with a placeholder, and the verdict about its replica.
func (c *Controller) stepOf(w *evaluation, h rebalance.Placeholder) (rebalance.Step, rebalance.Verdict) {
	in := c.input(w)
	if held, there := w.Held[string(h.Replica)]; there {
		in.Skip[string(h.Replica)] = held.Verdict
	}
	return in.Next(h.Replica, h.Holder, c.MoveTimeout)
}

// explain notes what keeps the replicas of the placeholders of a workload. It comes last: what this reconcile held back
// counts, for there may be no other one before the hold is over.
func (c *Controller) explain(w *evaluation) {
	w.Placeholders = rebalance.Waiting(w.Placeholders, func(h rebalance.Placeholder) rebalance.Verdict {
		_, v := c.stepOf(w, h)
		return v
	})
}

// moveTo evicts a replica whose placeholder runs, if the replacement fits in the
// place of the placeholder. It returns nil if it is on its way, else a hold.
func (c *Controller) moveTo(ctx context.Context, w *evaluation, v rebalance.Verdict, h rebalance.Placeholder) *rebalance.Hold {
	node, hold := c.proof.prove(ctx, w, v, h.UID)
	if hold != nil {
		if hold.Verdict.Reason == rebalance.ReasonInsufficientCapacity {
			hold.Until = w.now.Add(holdAssignment)
			hold.Verdict.RetryAt = hold.Until
			if c.proof.misplaced(ctx, w, v, h) {
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
			return w.hold(v, rebalance.ReasonCapacityUnproven, holdAssignment, "placeholder %s could not be deleted", h.Name)
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
		w.Placeholders = rebalance.Without(w.Placeholders, h)
		placeholders.WithLabelValues(holderUsed).Inc()
	}
	return nil
}

// end takes a placeholder away, and reports whether it is gone.
func (c *Controller) end(ctx context.Context, w *evaluation, h rebalance.Placeholder, result string) bool {
	w.Placeholders = rebalance.Without(w.Placeholders, h)
	placeholders.WithLabelValues(result).Inc()
	return c.holders.release(ctx, h.Namespace, h.Name, h.UID, result)
}

// release deletes a placeholder. Where that fails, the namespace is reconciled again.
func (hs *holders) release(ctx context.Context, namespace, name string, uid types.UID, why string) bool {
	err := hs.api.write(ctx, func(ctx context.Context) error {
		return hs.Client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		log.FromContext(ctx).Error(err, "Cannot delete a placeholder", "placeholder", name)
		hs.again(governing.GroupKey{Namespace: namespace}, holdAssignment)
		return false
	}
	hs.released[uid] = hs.Clock.Now()
	hs.again(governing.GroupKey{Namespace: namespace}, rebalance.Unseen) // if it is still there, it is deleted again
	log.FromContext(ctx).Info("Deleted a placeholder", "placeholder", name, "why", why)
	return true
}

// sweep deletes the placeholders of a namespace that no replica needs: those of replicas that are gone, and those that an earlier
// leader left. One whose replica is there is left to the reconcile of the replica's workload, which may take it over.
func (hs *holders) sweep(ctx context.Context, key governing.GroupKey) {
	there := hs.State.Placeholders(key.Namespace)
	if len(there) == 0 || hs.DryRun {
		return
	}
	needed, used := hs.claimed(key.Namespace)
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("namespace", key.Namespace))
	for _, h := range there {
		deleted, gone := hs.released[h.UID]
		switch {
		case gone: // the reconcile after a later deletion may have been queued already
			hs.again(governing.GroupKey{Namespace: key.Namespace}, deleted.Add(rebalance.Unseen).Sub(hs.Clock.Now()))
		case needed[h.UID], h.Terminating, h.Name != placeholder.Name(rebalance.ReplicaOf(h)):
		case used[h.UID]:
			hs.release(ctx, h.Namespace, h.Name, h.UID, holderUsed)
		case hs.ofAnother(h, key):
		default:
			placeholders.WithLabelValues(holderDropped).Inc()
			hs.release(ctx, h.Namespace, h.Name, h.UID, holderDropped)
		}
	}
}

// claimed returns the placeholders that the workloads of a namespace need, and those that a move has used.
func (hs *holders) claimed(namespace string) (needed, used map[types.UID]bool) {
	needed, used = map[types.UID]bool{}, map[types.UID]bool{}
	for _, e := range hs.Workloads.Namespace(namespace) {
		for _, h := range e.Placeholders {
			needed[h.UID] = true
		}
		for _, m := range e.Moves {
			used[m.Placeholder] = true
			if old := hs.State.Pod(m.Namespace, m.Name); old != nil && old.UID == m.UID {
				needed[m.Placeholder] = true
			}
		}
	}
	return needed, used
}

// ofAnother reports whether the replica of a placeholder belongs to another workload than that of a key.
func (hs *holders) ofAnother(h *clusterstate.Pod, key governing.GroupKey) bool {
	return slices.ContainsFunc(hs.State.Current(key.Namespace),
		func(g *clusterstate.Group) bool { return g.Key != key && has(g, rebalance.ReplicaOf(h)) })
}

// has reports whether a pod is a replica of a group.
func has(g *clusterstate.Group, pod types.UID) bool {
	return slices.ContainsFunc(g.Assignments, func(s clusterstate.Assignment) bool { return s.Pod.UID == pod })
}

// limits are the times of moves.
func (t *Tuning) limits() rebalance.Limits {
	return rebalance.Limits{Backoff: t.Backoff, MaxBackoff: t.MaxBackoff, Timeout: t.MoveTimeout}
}

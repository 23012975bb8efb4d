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
	// holdSeat is how long a replica waits whose placeholder runs where the
	// replacement does not fit: other pods on the node may go.
	holdSeat = 10 * time.Second
	// unseen is how long the watch may take to show a placeholder.
	unseen = 30 * time.Second
)

// placeholdersIn returns the placeholders of a namespace, but for those that were
// deleted and whose end the watch has not shown yet. A pod that another user
// gave the label is none. With --dry-run there are none: those of an earlier run
// are left alone.
func (p *pass) placeholdersIn(namespace string) []*clusterstate.Pod {
	if p.DryRun {
		return nil
	}
	return slices.DeleteFunc(p.State.Placeholders(namespace), func(h *clusterstate.Pod) bool {
		if at, gone := p.released[h.UID]; gone {
			p.lookAgain(namespace, at) // this look may have been for one that was deleted earlier
			return true
		}
		return h.Name != placeholder.Name(replicaOf(h))
	})
}

// isReleased reports whether a placeholder was deleted by this controller.
func (c *Controller) isReleased(uid types.UID) bool {
	_, gone := c.released[uid]
	return gone
}

// lookAgain is for a placeholder that was deleted: if it is still shown once that
// is forgotten, it has to be deleted again.
func (c *Controller) lookAgain(namespace string, deleted time.Time) {
	c.due.atLatest(policy.GroupKey{Namespace: namespace}, deleted.Add(unseen))
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
	names := make(map[types.UID]string, len(e.Group.Seats))
	for _, s := range e.Group.Seats {
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
			UID: h.UID, Namespace: h.Namespace, Name: h.Name, Replica: replica, ReplicaName: name, Seen: true, Slow: now.Sub(created) >= rebalance.SlowAfter,
			Holder: rebalance.Holder{Target: target, Created: created, Running: h.Running, Lost: !h.Live()},
		})
	}
	return list
}

// advance takes the next step with each placeholder of a workload.
func (p *pass) advance(ctx context.Context, e *workloads.Entry, at *place) {
	for _, h := range e.Placeholders {
		step, v := p.stepOf(e, at, h)
		switch step {
		case rebalance.StepMove:
			p.holdBack(e, p.moveTo(ctx, e, at, v, h))
		case rebalance.StepDrop:
			p.end(ctx, e, h, holderDropped)
		case rebalance.StepFail:
			p.end(ctx, e, h, holderExpired)
			p.limits().fail(e, p.now)
			p.ended(ctx, e, ending{outcome: notProvisioned})
		case rebalance.StepWait:
		}
		p.dueAt(v.RetryAt)
		p.dueAt(h.Created.Add(p.MoveTimeout))
		p.Workloads.Put(*e)
	}
}

// stepOf is the next step with a placeholder, and the verdict about its replica.
func (p *pass) stepOf(e *workloads.Entry, at *place, h workloads.Placeholder) (rebalance.Step, rebalance.Verdict) {
	in := p.input(e, at)
	if held, there := e.Held[string(h.Replica)]; there {
		in.Skip[string(h.Replica)] = held.Verdict
	}
	return in.Next(h.Replica, h.Holder, p.MoveTimeout)
}

// explain notes what keeps the replicas of the placeholders of a workload. It
// comes last: what this look held back counts, for there may be no other look
// before the hold is over.
func (p *pass) explain(e *workloads.Entry, at *place) {
	for _, h := range e.Placeholders {
		_, v := p.stepOf(e, at, h)
		e.Placeholders = waiting(e.Placeholders, h.UID, v)
	}
}

// moveTo evicts a replica whose placeholder runs, if the replacement fits in the
// placeholder's stead. It returns nil if it is on its way, else a hold.
func (p *pass) moveTo(ctx context.Context, e *workloads.Entry, at *place, v rebalance.Verdict, h workloads.Placeholder) *workloads.Hold {
	node, hold := p.prove(ctx, e, v, h.UID)
	if hold != nil {
		if hold.Verdict.Reason == rebalance.ReasonNoRoom {
			hold.Until = p.now.Add(holdSeat)
			hold.Verdict.RetryAt = hold.Until
		}
		return hold
	}
	when := rebalance.HandoverOf(&e.Group, h.Target)
	again := func() rebalance.Verdict { _, v := p.stepOf(e, at, h); return v }
	if when == rebalance.BeforeEviction {
		if _, hold = p.confirm(ctx, e, v, again); hold != nil {
			return hold
		}
		if !p.end(ctx, e, h, holderUsed) {
			return p.hold(v, ReasonUnproven, holdSeat, "placeholder %s could not be deleted", h.Name)
		}
	}
	if hold = p.evict(ctx, e, v, node, again); hold != nil {
		return hold
	}
	switch when {
	case rebalance.BeforeEviction:
	case rebalance.AfterEviction:
		p.end(ctx, e, h, holderUsed)
	case rebalance.OnceGone:
		e.Moves[len(e.Moves)-1].Placeholder = h.UID // evict has made this slice
		e.Placeholders = without(e.Placeholders, h)
		placeholders.WithLabelValues(holderUsed).Inc()
	}
	return nil
}

// end takes a placeholder away, and reports whether it is gone.
func (p *pass) end(ctx context.Context, e *workloads.Entry, h workloads.Placeholder, result string) bool {
	e.Placeholders = without(e.Placeholders, h)
	placeholders.WithLabelValues(result).Inc()
	return p.release(ctx, h.Namespace, h.Name, h.UID, result)
}

// waiting notes what keeps the replica of a placeholder.
func waiting(list []workloads.Placeholder, uid types.UID, v rebalance.Verdict) []workloads.Placeholder {
	list = slices.Clone(list)
	for i := range list {
		if list[i].UID != uid {
			continue
		}
		list[i].Waits = ""
		if v.Reason != rebalance.ReasonMove {
			list[i].Waits = fmt.Sprintf("%s: %s", v.Reason, v.Message)
		}
	}
	return list
}

func without(list []workloads.Placeholder, h workloads.Placeholder) []workloads.Placeholder {
	return slices.DeleteFunc(slices.Clone(list), func(o workloads.Placeholder) bool { return o.UID == h.UID })
}

// releaseAll takes the placeholders of a workload away that nothing can be decided about.
func (p *pass) releaseAll(ctx context.Context, e *workloads.Entry) {
	for _, h := range e.Placeholders {
		p.end(ctx, e, h, holderDropped)
	}
}

// release deletes a placeholder. Where that fails, the next look sees it again.
func (p *pass) release(ctx context.Context, namespace, name string, uid types.UID, why string) bool {
	err := p.bounded(ctx, func(ctx context.Context) error {
		return p.Client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		log.FromContext(ctx).Error(err, "Cannot delete a placeholder", "placeholder", name)
		p.due.atLatest(policy.GroupKey{Namespace: namespace}, p.now.Add(holdSeat))
		return false
	}
	p.released[uid] = p.now
	p.lookAgain(namespace, p.now)
	log.FromContext(ctx).Info("Deleted a placeholder", "placeholder", name, "why", why)
	return true
}

// sweep deletes the placeholders of a namespace that no one needs: those of
// replicas that are gone, and those that an earlier leader left behind.
func (p *pass) sweep(ctx context.Context, namespace string, there []*clusterstate.Pod) {
	if len(there) == 0 {
		return
	}
	needed, used := map[types.UID]bool{}, map[types.UID]bool{}
	for _, e := range p.Workloads.Namespace(namespace) {
		for _, h := range e.Placeholders {
			needed[h.UID] = true
		}
		for _, m := range e.Moves {
			used[m.Placeholder] = true
			if old := p.State.Pod(m.Namespace, m.Name); old != nil && old.UID == m.UID {
				needed[m.Placeholder] = true
			}
		}
	}
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("namespace", namespace))
	for _, h := range there {
		switch {
		case needed[h.UID], p.isReleased(h.UID), h.Terminating:
		case used[h.UID]:
			p.release(ctx, namespace, h.Name, h.UID, holderUsed)
		default:
			placeholders.WithLabelValues(holderDropped).Inc()
			p.release(ctx, namespace, h.Name, h.UID, holderDropped)
		}
	}
}

// limits are the times of moves.
func (p *pass) limits() limits {
	return limits{backoff: p.Backoff, maxBackoff: p.MaxBackoff, timeout: p.MoveTimeout}
}

// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

// leavers evict the replicas that were released, once their replacements are available. What is released is seen on the pods, so that
// a new leader goes on where another one ended.
type leavers struct {
	*Options
	api *calls
	// grace is when the time ends in which the cluster state may be old.
	grace func() time.Time
	// again reconciles a workload after a time.
	again func(key governing.GroupKey, after time.Duration)
	// evicted are the pods that were evicted lately, and when: the watch may still show them.
	evicted map[types.UID]time.Time
}

// sweep evicts the released replicas of a workload, or those of a namespace, that may go.
func (l *leavers) sweep(ctx context.Context, key governing.GroupKey) {
	all := l.State.Released(key.Namespace)
	if len(all) == 0 || l.DryRun {
		return
	}
	now := l.Clock.Now()
	maps.DeleteFunc(l.evicted, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= rebalance.Unseen })
	for _, p := range all {
		id, _ := p.ReleasedFrom()
		of := governing.GroupKey{Namespace: p.Namespace, ID: id}
		if _, gone := l.evicted[p.UID]; gone || key.ID != "" && key != of {
			continue
		}
		if wait := l.retire(ctx, p, of, now); wait > 0 {
			l.again(of, wait)
		}
	}
}

// retire evicts a replica if it may go, and returns when to try again, 0 for when its workload changes.
func (l *leavers) retire(ctx context.Context, p *clusterstate.Pod, of governing.GroupKey, now time.Time) (wait time.Duration) {
	if until := l.grace(); now.Before(until) {
		return until.Sub(now)
	}
	g := l.State.Group(of)
	ok, next := rebalance.Retires(g, l.State.Follows(of), now)
	switch {
	case !ok && next.IsZero():
		return 0
	case !ok:
		return max(next.Sub(now), rebalance.HoldChanged)
	}
	logger := log.FromContext(ctx).WithValues("namespace", p.Namespace, "pod", p.Name)
	what, pod, err := l.read(ctx, g, p)
	if err == nil && what == "" && pod != nil {
		err = l.api.evict(ctx, pod, nil)
		result, _ := refusal(rebalance.Action{Verdict: rebalance.Verdict{Pod: p}}, err)
		evictions.WithLabelValues(p.Namespace, l.mixOf(of), result).Inc()
	}
	switch {
	case apierrors.IsNotFound(err), err == nil && what == "":
		l.evicted[p.UID] = now
		logger.Info("Evicted a released replica: its replacement is available", "node", p.Node)
		return 0
	case what != "":
		logger.V(1).Info("A released replica stays for now", "why", what)
		return rebalance.HoldUnread
	}
	logger.Info("A released replica could not be evicted yet", "error", err.Error())
	return rebalance.HoldMisplaced
}

// read reads a replica and the pods of the group that it was released from, and returns how these differ from what the watch has shown,
// "" for nothing. The pod is nil if it is gone, or not released.
func (l *leavers) read(ctx context.Context, g *clusterstate.Group, p *clusterstate.Pod) (what string, pod *corev1.Pod, err error) {
	if g != nil {
		of := rebalance.Action{Of: rebalance.Entry{Group: *g, Mix: mixOf(g)}, Selector: rebalance.SelectorOf(g)}
		live, err := l.api.livePods(ctx, of)
		if err != nil {
			return "", nil, err
		}
		if what := rebalance.Differs(g, nil, live); what != "" {
			return what, nil, nil
		}
	}
	pod, err = l.api.replica(ctx, p)
	return "", pod, err
}

// mixOf is the name of the mix of a workload, "" if it has none.
func (l *leavers) mixOf(key governing.GroupKey) string {
	e, _ := l.Workloads.Get(key)
	return e.Mix
}

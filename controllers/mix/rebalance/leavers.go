// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

const (
	// maxRetired bounds the calls of one sweep: others wait for the worker meanwhile.
	maxRetired = 10
	// retireAgain is when a refused eviction is tried again, doubled each time up to retireLatest, retireMore when a sweep goes on.
	retireAgain, retireLatest, retireMore = 10 * time.Second, 5 * time.Minute, 200 * time.Millisecond
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
	// tried are the attempts to evict pods.
	tried map[types.UID]retirement
}

// retirement is what has come of the attempts to evict a pod: it is not tried again before a time.
type retirement struct {
	times int32
	until time.Time
}

// sweep evicts the replicas that may go of those that were released from a workload, or from those of a namespace. One that may not go
// holds the others of its ReplicaSet, which would be refused as well.
func (l *leavers) sweep(ctx context.Context, key governing.GroupKey) {
	all := l.State.Released(key.Namespace)
	if len(all) == 0 || l.DryRun {
		return
	}
	now := l.Clock.Now()
	maps.DeleteFunc(l.tried, func(_ types.UID, r retirement) bool { return now.Sub(r.until) >= retireLatest })
	held, left := map[types.UID]bool{}, maxRetired
	for _, p := range all {
		from, _ := p.ReleasedFrom()
		of := governing.GroupKey{Namespace: p.Namespace, ID: from.Group}
		if now.Before(l.tried[p.UID].until) || held[from.ReplicaSet] || key.ID != "" && key != of {
			continue
		}
		if left == 0 {
			l.again(key, retireMore)
			return
		}
		evicted, tried, wait := l.retire(ctx, p, from, now)
		held[from.ReplicaSet] = !evicted
		if tried { // a call that was refused counts as well
			left--
		}
		if wait > 0 {
			l.again(of, wait)
		}
	}
}

// retire evicts a replica if it may go. Wait is when to try again, 0 for when its workload changes.
func (l *leavers) retire(ctx context.Context, p *clusterstate.Pod, from pods.Release, now time.Time) (
	evicted, tried bool, wait time.Duration,
) {
	if until := l.grace(); now.Before(until) {
		return false, false, until.Sub(now)
	}
	crew := l.State.CrewOf(p.Namespace, from.ReplicaSet)
	switch ok, next := rebalance.Retires(&crew, now); {
	case !ok && next.IsZero():
		return false, false, 0
	case !ok:
		return false, false, max(next.Sub(now), rebalance.HoldChanged)
	}
	logger := log.FromContext(ctx).WithValues("namespace", p.Namespace, "pod", p.Name)
	pod, err := l.read(ctx, p, from, &crew)
	if err == nil {
		pod, err = l.unlabel(ctx, pod, from)
	}
	if err == nil {
		err = l.api.evict(ctx, pod, nil)
		result, _ := refusal(rebalance.Action{Verdict: rebalance.Verdict{Pod: p}}, err)
		if result == resultEvicted {
			result = resultRetired
		}
		evictions.WithLabelValues(p.Namespace, l.mixOf(from, p.Namespace), result).Inc()
	}
	if err == nil || apierrors.IsNotFound(err) {
		l.tried[p.UID] = retirement{until: now.Add(rebalance.Unseen)} // the watch may still show it
		logger.Info("Evicted a released replica: its replacement is available", "node", p.Node)
		return true, true, 0
	}
	times := l.tried[p.UID].times + 1
	wait = rebalance.Backoff(retireAgain, retireLatest, times)
	l.tried[p.UID] = retirement{times: times, until: now.Add(wait)}
	logger.Info("A released replica is not evicted yet", "error", err.Error(), "retryAfter", wait)
	return false, true, wait
}

// unlabel removes the label by which the budget of a floor selects a replica: its replacement counts, and the budget does not allow it to
// go, because a drain could evict another one in its place. It returns the replica as it is then: the eviction has its version.
func (l *leavers) unlabel(ctx context.Context, pod *corev1.Pod, from pods.Release) (after *corev1.Pod, err error) {
	if pod.Labels[v1alpha1.FloorLabel] != governing.FloorLabel(governing.GroupKey{Namespace: pod.Namespace, ID: from.Group}) {
		return pod, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion, "labels": map[string]any{v1alpha1.FloorLabel: nil},
	}})
	if err != nil {
		return nil, err
	}
	err = l.api.write(ctx, func(ctx context.Context) (err error) {
		after, err = l.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: FieldOwner})
		return err
	})
	return after, err
}

// read reads a replica and the pods of its ReplicaSet, as the API server has them: the watch may be behind.
func (l *leavers) read(ctx context.Context, p *clusterstate.Pod, from pods.Release, crew *clusterstate.Crew) (*corev1.Pod, error) {
	pod, err := l.api.replica(ctx, p)
	if err != nil {
		return nil, err
	}
	if !pods.Leaves(pod) {
		return nil, rebalance.Changed(p)
	}
	if crew.Asked == 0 {
		return pod, nil
	}
	hash := labels.SelectorFromSet(rebalance.HashOf(crew.Live[0].Labels))
	live, err := l.api.listPods(ctx, p.Namespace, hash, func(pod *corev1.Pod) bool {
		ref := metav1.GetControllerOfNoCopy(pod)
		return ref != nil && ref.UID == from.ReplicaSet
	})
	if err != nil {
		return nil, err
	}
	if n := readyOf(live); n < crew.Asked {
		return nil, fmt.Errorf("%d of %d pods of its ReplicaSet are Ready", n, crew.Asked)
	}
	return pod, nil
}

func readyOf(live []corev1.Pod) (n int) {
	for i := range live {
		if _, ready := rebalance.ReadySince(&live[i]); ready && live[i].DeletionTimestamp == nil && !pods.Finished(&live[i]) {
			n++
		}
	}
	return n
}

// mixOf is the name of the mix of the workload that a replica was released from, "" if it has none.
func (l *leavers) mixOf(from pods.Release, namespace string) string {
	e, _ := l.Workloads.Get(governing.GroupKey{Namespace: namespace, ID: from.Group})
	return e.Mix
}

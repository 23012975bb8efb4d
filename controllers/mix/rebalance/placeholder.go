// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/placeholder"
	"berth.dev/berth/internal/mix/rebalance"
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

// create creates a placeholder, or finds the one that there is: of an earlier
// leader, or of a call whose answer was lost.
func (hs *holders) create(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	created, err := hs.Client.CoreV1().Pods(pod.Namespace).Create(call, pod, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		created, err = hs.Client.CoreV1().Pods(pod.Namespace).Get(call, pod.Name, metav1.GetOptions{})
		const label = v1alpha1.PlaceholderLabel
		if err == nil && (created.DeletionTimestamp != nil || created.Labels[label] != pod.Labels[label]) {
			err = fmt.Errorf("there is another pod %s", pod.Name)
		}
	}
	if err != nil {
		return nil, err // the client returns an empty pod
	}
	return created, nil
}

// end deletes a placeholder of a workload, which has ended so.
func (hs *holders) end(ctx context.Context, h *rebalance.Placeholder, how rebalance.Ended) rebalance.Ended {
	hs.release(ctx, h.Namespace, h.Name, h.UID, how)
	return how
}

// release deletes a placeholder. Where that fails, the namespace is reconciled again.
func (hs *holders) release(ctx context.Context, namespace, name string, uid types.UID, why rebalance.Ended) bool {
	err := hs.api.write(ctx, func(ctx context.Context) error {
		return hs.Client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		log.FromContext(ctx).Error(err, "Cannot delete a placeholder", "placeholder", name)
		hs.again(governing.GroupKey{Namespace: namespace}, rebalance.HoldMisplaced)
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
			hs.release(ctx, h.Namespace, h.Name, h.UID, rebalance.Used)
		case hs.ofAnother(h, key):
		default:
			placeholders.WithLabelValues(string(rebalance.Dropped)).Inc()
			hs.release(ctx, h.Namespace, h.Name, h.UID, rebalance.Dropped)
		}
	}
}

// claimed returns the placeholders that the workloads of a namespace need, and those that a move has used.
func (hs *holders) claimed(namespace string) (needed, used map[types.UID]bool) {
	needed, used = map[types.UID]bool{}, map[types.UID]bool{}
	for _, e := range hs.Workloads.Moving(namespace) {
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
	return slices.ContainsFunc(g.Assignments, func(s clusterstate.Assignment) bool { return s.Has(pod) })
}

// limits are the times of moves.
func (t *Tuning) limits() rebalance.Limits {
	return rebalance.Limits{Backoff: t.Backoff, MaxBackoff: t.MaxBackoff, Timeout: t.MoveTimeout}
}

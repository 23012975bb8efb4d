// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"encoding/json"
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
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
)

const (
	// soon is when repairs that exceed the rate, or have failed, are tried again.
	soon = 10 * time.Second
	// repairTimeout bounds the calls of one repair.
	repairTimeout = 5 * time.Second
)

// note remembers the workloads of a decision that have annotations to be
// repaired, and reports whether there are any.
func (r *Controller) note(d workloads.Decision) (found bool) {
	repairs := r.repairs.Limit() > 0
	for _, key := range d.Groups {
		e, known := r.Workloads.Get(key)
		if known && r.observe(&e.Group) && repairs {
			r.setStale(key, true)
			found = true
		}
		if known && repairs && (r.delayed() || r.packs()) { // what may be exchanged later is considered as a whole then
			r.packing.decided(&e, r.Clock.Now())
		}
	}
	return found
}

func (r *Controller) setStale(key governing.GroupKey, is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.staleGroups[key.Namespace]
	switch {
	case is && all == nil:
		r.staleGroups[key.Namespace] = map[governing.GroupKey]bool{key: true}
	case is:
		all[key] = true
	default:
		if delete(all, key); len(all) == 0 {
			delete(r.staleGroups, key.Namespace)
		}
	}
}

func (r *Controller) staleIn(namespace string) []governing.GroupKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.staleGroups[namespace]))
}

// repair repairs the annotations of a namespace's pods, and returns when the
// rest may follow; 0 if nothing is left.
func (r *Controller) repair(ctx context.Context, namespace string) (wait time.Duration) {
	if r.repairs.Limit() == 0 {
		return 0
	}
	for _, key := range r.staleIn(namespace) {
		r.setStale(key, false) // before it is read: what is decided meanwhile counts
		e, _ := r.Workloads.Get(key)
		if w := r.repairGroup(ctx, &e.Group); w > 0 {
			r.setStale(key, true)
			wait = workloads.Earliest(wait, w)
		}
	}
	return wait
}

// repairGroup returns when the rest of a workload's pods may follow; 0 if nothing is left. It begins with the highest slot, which a
// scale-down removes first: with k costs restored, the next k removals can be exact.
func (r *Controller) repairGroup(ctx context.Context, g *clusterstate.Group) (wait time.Duration) {
	if r.packing.unseen(g, r.Clock.Now()) {
		return soon // it would undo what was written a moment ago
	}
	for i := len(g.Assignments) - 1; i >= 0; i-- { // they are sorted by slot
		for _, p := range g.Assignments[i].Members() {
			at, more := r.repairIfStale(ctx, g, &g.Assignments[i], p)
			if wait = workloads.Earliest(wait, at); !more {
				return wait
			}
		}
	}
	return wait
}

// repairIfStale returns when a pod may be repaired that is not, 0 if nothing is left of it. More is false where no other pod may be
// repaired before.
func (r *Controller) repairIfStale(ctx context.Context, g *clusterstate.Group, s *clusterstate.Assignment, p *clusterstate.Pod) (
	wait time.Duration, more bool,
) {
	want := r.stale(g, s, p)
	if len(want) == 0 {
		return 0, true
	}
	now := r.Clock.Now()
	if r.contest.doubtful(p.UID, want, now) {
		if undone, err := r.costUndone(ctx, g, s.Slot, p); err != nil || !undone {
			return failedRepair(ctx, p, err)
		}
	}
	at, undone := r.contest.allow(p.UID, want, now)
	if at.After(now) {
		return at.Sub(now), true
	}
	if ok, wait := r.mayRepair(p.Namespace, want, now); !ok {
		return wait, true // what else has to be repaired has another rate
	}
	return failedRepair(ctx, p, r.repairPod(ctx, g, s.Slot, p, undone))
}

// failedRepair returns what repairIfStale does after a repair, which has failed unless the error is nil. What fails for one pod only,
// such as a change of it at the same moment or a policy, does not stop the repairs of the others.
func failedRepair(ctx context.Context, p *clusterstate.Pod, err error) (wait time.Duration, more bool) {
	if err == nil {
		return 0, true
	}
	if apierrors.IsConflict(err) {
		return soon, true
	}
	log.FromContext(ctx).Error(err, "Cannot repair the annotations of a pod", "pod", key(p.Namespace, p.Name))
	return soon, apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
}

// costUndone reads a pod and reports whether its deletion cost is wrong, which it notes. The record can be older than the last repair.
func (r *Controller) costUndone(ctx context.Context, g *clusterstate.Group, slot int, record *clusterstate.Pod) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, repairTimeout)
	defer cancel()
	_, want, err := r.wanted(ctx, g, slot, record)
	_, undone := want[v1alpha1.PodDeletionCostAnnotation]
	if undone {
		r.contest.overwritten(record.UID, r.Clock.Now())
	}
	return undone, err
}

// wanted reads a pod, and returns what has to be written on it. Of one that has changed, that is nothing: the watch will show it.
func (r *Controller) wanted(ctx context.Context, g *clusterstate.Group, slot int, record *clusterstate.Pod) (
	pod *corev1.Pod, want map[string]string, err error,
) {
	pod, err = r.Kube.CoreV1().Pods(record.Namespace).Get(ctx, record.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !unchanged(pod, record) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read pod %s/%s: %w", record.Namespace, record.Name, err)
	}
	origin, _ := clusterstate.CostWriter(pod)
	return pod, differing(live{pod}, origin.Stays(metav1.GetControllerOfNoCopy(pod), g.Governing), slot, g.Governing), nil
}

// repairPod patches a pod as it is now, and only if it has not changed since it was read.
func (r *Controller) repairPod(ctx context.Context, g *clusterstate.Group, slot int, record *clusterstate.Pod, undone int) error {
	ctx, cancel := context.WithTimeout(ctx, repairTimeout)
	defer cancel()
	pod, want, err := r.wanted(ctx, g, slot, record)
	if len(want) == 0 {
		return err
	}
	if gone, err := r.annotate(ctx, pod, want); gone || err != nil {
		return err
	}
	repairs.Inc()
	r.contest.note(pod.UID, want, undone, r.Clock.Now())
	log.FromContext(ctx).Info("Repaired the annotations of a pod", "pod", key(pod.Namespace, pod.Name), "annotations", want)
	r.reportUndone(g, pod, undone)
	return nil
}

// annotate writes annotations on a pod, unless it has changed since it was read. It reports whether the pod is gone.
func (r *Controller) annotate(ctx context.Context, pod *corev1.Pod, want map[string]string) (gone bool, err error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion, "annotations": merged(want),
	}})
	if err != nil {
		return false, err
	}
	o := metav1.PatchOptions{FieldManager: FieldOwner}
	_, err = r.Kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, o)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("patch pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return false, nil
}

// merged are annotations as a merge patch has them, which removes those that are null.
func merged(want map[string]string) map[string]*string {
	all := make(map[string]*string, len(want))
	for key, value := range want {
		if key == v1alpha1.PodDeletionCostAnnotation && value == noCost {
			all[key] = nil
			continue
		}
		all[key] = &value
	}
	return all
}

// unchanged reports whether a pod still is where its record has it.
func unchanged(pod *corev1.Pod, record *clusterstate.Pod) bool {
	return pod.UID == record.UID && pod.Spec.NodeName == record.Node && pod.DeletionTimestamp == nil
}

// reportUndone counts the repairs that another client has undone, and records an
// event about the first pod of a workload where it does so again and again.
func (r *Controller) reportUndone(g *clusterstate.Group, pod *corev1.Pod, undone int) {
	if undone == 0 {
		return
	}
	undoneRepairs.Inc()
	if undone != contestedAfter || r.isReported(g.Key) {
		return
	}
	r.Recorder.Eventf(g.Workload.Reference(), corev1.EventTypeWarning, v1alpha1.EventReasonAnnotationConflict,
		"Another client changes the slot annotations of pod %s again and again; Berth restores them less and less often", pod.Name)
}

// isReported reports whether an event about a workload was recorded, and notes that it is now.
func (r *Controller) isReported(key governing.GroupKey) bool {
	_, before := r.reported.Get(key)
	r.reported.Add(key, nil)
	return before
}

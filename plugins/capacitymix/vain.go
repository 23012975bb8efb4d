// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/fallback"
	"berth.dev/berth/internal/mix/policy"
)

// unschedulableSince returns the time from which the scheduler says that a pod
// finds no node, as the API server has it; nil if it does not report it. For a pod
// that had a gate that is about when it was made: a condition that stays False
// keeps its time.
func unschedulableSince(pod *corev1.Pod) *metav1.Time {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled {
			if c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
				return nil
			}
			if c.LastTransitionTime.IsZero() {
				return &pod.CreationTimestamp
			}
			return &c.LastTransitionTime
		}
	}
	return nil
}

// look deletes a pod that has waited for spot for long enough.
func (f *fallbacks) look(ctx context.Context, key types.NamespacedName) {
	pod, err := f.pods.Pods(key.Namespace).Get(key.Name)
	if err != nil || !waitsForSpot(pod) {
		return
	}
	p := f.policyOf(pod)
	if p == nil || !p.BorrowOnDemand {
		return // a change of its mix comes here again
	}
	if again, due := f.due(pod, p); !due {
		if again > 0 {
			f.queue.AddAfter(key, again)
		}
		return
	}
	if why := withoutSuccessor(pod); why != "" {
		f.abandon(pod, p, why)
		return
	}
	if f.limiter.Wait(ctx) == nil {
		f.delete(ctx, key, pod, p)
	}
}

// due reports whether a pod has waited for long enough, and if not, when to look
// again; 0 means when something happens.
func (f *fallbacks) due(pod *corev1.Pod, p *policy.Policy) (again time.Duration, due bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, since := f.clock.Now(), unschedulableSince(pod)
	w := f.waiting[pod.UID]
	if w == nil { // another process opened its gate, or its mix said Wait then
		group, _ := policy.GroupOf(pod, p)
		w = &waiting{
			name: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pool: poolKey{pod.Namespace, p.Source},
			group: group.ID, verdict: fallback.Verdict{Type: capacity.Spot},
		}
		began := now
		if since != nil {
			w.since = since.Time
			if now.Before(w.since) { // by another process's clock
				w.since = now
			}
			began = w.since
		}
		w.notBefore = f.ledSince.Add(min(leaderGrace, p.GatedSpotWait))
		w.wait = p.GatedSpotWait
		f.waiting[pod.UID] = w
		f.poolOf(w.pool, w.wait).Tries(began, w.asPod(pod.UID))
	}
	w.wait = p.GatedSpotWait
	if since == nil || w.over {
		return 0, false
	}
	if w.since.IsZero() {
		w.since = now
	}
	at := w.since.Add(w.wait)
	if pod.Status.NominatedNodeName != "" {
		// The pods that it preempted are terminating, or an autoscaler makes a node for it. That must not last.
		at = at.Add(max(w.wait, nominatedWait))
	}
	if at.Before(w.notBefore) {
		at = w.notBefore
	}
	return at.Sub(now), !now.Before(at)
}

// delete deletes a pod, unless it has changed since it was looked at: it may
// have been bound. An answer that got lost changes nothing: the watch says
// whether the pod is gone.
func (f *fallbacks) delete(ctx context.Context, key types.NamespacedName, pod *corev1.Pod, p *policy.Policy) {
	if f.fenced(ctx) != nil {
		return
	}
	f.mark(pod.UID, func(w *waiting) { w.inVain = true })
	timed, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	err := f.client.CoreV1().Pods(pod.Namespace).Delete(timed, pod.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion},
	})
	logger := klog.FromContext(ctx)
	switch {
	case err == nil:
		f.mark(pod.UID, func(w *waiting) { f.failed(pod.UID, w, true) })
		f.queue.Forget(key)
		logger.Info("Deleted a pod that found no spot node: its successor goes to on-demand", "pod", klog.KObj(pod), "after", p.GatedSpotWait)
		f.reports.spotUnavailable(pod, p.GatedSpotWait)
	case apierrors.IsNotFound(err):
		f.queue.Forget(key)
	case apierrors.IsConflict(err):
		f.queue.AddAfter(key, changedAgain)
	default:
		logger.Error(err, "Delete a pod that found no spot node", "pod", klog.KObj(pod))
		f.queue.AddRateLimited(key)
	}
}

// withoutSuccessor says why the deletion of a pod would not bring another one, "" if it would.
//
// The Job controller counts a pod that was deleted before it ran as one that
// failed (isPodFailed in pkg/controller/job of Kubernetes 1.34; with
// podReplacementPolicy Failed the pod garbage collector marks it Failed first).
// Six of them end a Job by default, for what no pod of it did.
func withoutSuccessor(pod *corev1.Pod) string {
	ref := metav1.GetControllerOfNoCopy(pod)
	switch {
	case ref == nil:
		return "it has no controller that would make another"
	case ref.Kind == "Job" && strings.HasPrefix(ref.APIVersion, batchv1.GroupName+"/"):
		return "its Job would count it as failed"
	}
	return ""
}

// abandon leaves a pod to wait for spot indefinitely, and counts it like one that was deleted: the others need not wait as long.
func (f *fallbacks) abandon(pod *corev1.Pod, p *policy.Policy, why string) {
	f.mark(pod.UID, func(w *waiting) { f.failed(pod.UID, w, false) })
	f.reports.waitsOn(pod, p.GatedSpotWait, why)
}

// mark changes what is known of a pod, if it has not gone meanwhile.
func (f *fallbacks) mark(uid types.UID, change func(*waiting)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w := f.waiting[uid]; w != nil {
		change(w)
	}
}

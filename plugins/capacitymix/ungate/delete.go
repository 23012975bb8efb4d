// SPDX-License-Identifier: Apache-2.0

package ungate

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/fallback"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/replacement"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

// unschedulableSince returns since when a pod is reported to be unschedulable,
// nil if it is not. For a pod that was gated it is when its gate was removed: the
// condition of a gated pod is False too, and keeps the time of its creation.
func unschedulableSince(pod *corev1.Pod) *metav1.Time {
	c := ledger.Unschedulable(pod)
	switch {
	case c == nil:
		return nil
	case c.LastTransitionTime.IsZero():
		return later(pod, &pod.CreationTimestamp)
	}
	return later(pod, &c.LastTransitionTime)
}

// later returns when the gate of a pod was removed, if that is known and later than another time.
func later(pod *corev1.Pod, than *metav1.Time) *metav1.Time {
	at, err := time.Parse(time.RFC3339, pod.Annotations[v1alpha1.UngatedAtAnnotation])
	if err != nil || !at.After(than.Time) {
		return than
	}
	return &metav1.Time{Time: at}
}

// reconcile deletes a pod that has waited for spot for long enough.
func (f *spotFallback) reconcile(ctx context.Context, key types.NamespacedName) {
	pod, err := f.Pods.Pods(key.Namespace).Get(key.Name)
	if err != nil || !waitsForSpot(pod) {
		return
	}
	p := f.mixOf(pod)
	if p == nil || !p.BorrowOnDemand {
		return // a change of its mix adds it again
	}
	deadline, w, by := f.recordWait(pod, p)
	if deadline.IsZero() {
		return
	}
	if remaining := deadline.Sub(f.clock.Now()); remaining > 0 {
		f.queue.AddAfter(key, remaining)
		return
	}
	blocked := f.hasPlace(pod, w, false)
	if blocked && by != "" && !w.decided() {
		return // it came after the report. The pod may be about to be bound there; it is evaluated again by resync
	}
	f.update(pod.UID, func(w *waitingPod) { w.blocked, w.endedBy = blocked, by })
	f.fallBack(ctx, key, pod, p)
}

// fallBack deletes a pod whose wait is over, with its unit, if others replace it.
func (f *spotFallback) fallBack(ctx context.Context, key types.NamespacedName, pod *corev1.Pod, p *governing.Mix) {
	if why := replacement.Lost(pod); why != "" {
		f.keepWaiting(pod, p, why)
		return
	}
	if others, runs := f.Ledger.Unit(pod.UID); runs {
		f.waitForUnit(pod, p)
	} else if len(others) > 1 {
		f.deleteUnit(ctx, key, pod, others, p)
	} else if f.limiter.Wait(ctx) == nil {
		f.delete(ctx, key, pod, p)
	}
}

// waitForUnit lets a pod wait once more, because others of its unit run: these may end.
func (f *spotFallback) waitForUnit(pod *corev1.Pod, p *governing.Mix) {
	f.keepWaiting(pod, p, "other pods of its unit run on spot nodes, and a unit runs on one capacity type")
	now := f.clock.Now()
	f.update(pod.UID, func(w *waitingPod) {
		w.failed, w.notBefore = false, now.Add(max(w.wait, nominatedWait))
		f.poolOf(w).Tries(now, w.pod(pod.UID))
	})
}

// deleteUnit deletes all pods of a unit of which one has waited for long enough: their successors go to on-demand together. None of
// these is ungated meanwhile, because those that are not deleted yet hold the unit to spot. The unit counts as one failure.
func (f *spotFallback) deleteUnit(ctx context.Context, key types.NamespacedName, pod *corev1.Pod, all []*corev1.Pod, p *governing.Mix) {
	others, runs := f.othersOf(pod, all)
	if runs {
		f.waitForUnit(pod, p)
		return
	}
	for _, other := range others {
		if why := replacement.Lost(other); why != "" {
			f.keepWaiting(pod, p, "pod "+other.Name+" of its unit: "+why)
			return
		}
	}
	member, _ := f.Member(pod, p)
	f.units.add(member, pod.UID)
	var by string
	f.update(pod.UID, func(w *waitingPod) { w.committed, by = true, w.endedBy })
	f.delete(ctx, key, pod, p)
	for _, other := range others {
		f.units.add(member, other.UID)
		f.recordWait(other, p) // one that another process ungated
		f.update(other.UID, func(w *waitingPod) { w.withUnit, w.endedBy = true, by })
		if f.limiter.Wait(ctx) == nil {
			f.delete(ctx, types.NamespacedName{Namespace: other.Namespace, Name: other.Name}, other, p)
		}
	}
}

// othersOf returns the other pods of a unit as the watch has them at this moment, since the ledger does not have each version. runs is
// set where one of them has a node by now.
func (f *spotFallback) othersOf(pod *corev1.Pod, all []*corev1.Pod) (others []*corev1.Pod, runs bool) {
	for _, known := range all {
		now, err := f.Pods.Pods(known.Namespace).Get(known.Name)
		if err != nil || now.UID != known.UID || now.UID == pod.UID || !ledger.Active(now) {
			continue
		}
		others, runs = append(others, now), runs || now.Spec.NodeName != ""
	}
	return others, runs
}

// unitsInFallback are the pods that were deleted to have their units go to on-demand, until the ledger has them no more.
type unitsInFallback struct {
	mu  sync.Mutex
	all map[unitKey][]types.UID
}

type unitKey struct {
	group governing.GroupKey
	unit  string
}

// add adds a pod that is about to be deleted.
func (u *unitsInFallback) add(m governing.Member, uid types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = map[unitKey][]types.UID{}
	}
	key := unitKey{m.Group, m.Unit}
	u.all[key] = append(u.all[key], uid)
}

// has reports whether pods of a unit are still there of those that were to be deleted, and may be.
func (u *unitsInFallback) has(m governing.Member, deleted func(types.UID) bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.left(unitKey{m.Group, m.Unit}, deleted)
}

// left is has with the lock held.
func (u *unitsInFallback) left(key unitKey, deleted func(types.UID) bool) bool {
	if left := slices.DeleteFunc(u.all[key], deleted); len(left) > 0 {
		u.all[key] = left
		return true
	}
	delete(u.all, key)
	return false
}

// prune forgets the units of which no pod is left that was to be deleted.
func (u *unitsInFallback) prune(deleted func(types.UID) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key := range u.all {
		u.left(key, deleted)
	}
}

// recordWait records that a pod waits, and returns when its wait is over, zero
// if that depends on an event to come, and the autoscaler whose report ends it.
func (f *spotFallback) recordWait(pod *corev1.Pod, p *governing.Mix) (deadline time.Time, w *waitingPod, by string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, since := f.clock.Now(), unschedulableSince(pod)
	w = f.waiting[pod.UID]
	if w == nil { // another process ungated it, or its mix did not let it fall back then
		w = f.adopt(pod, p, since, now)
	}
	w.wait = p.GatedSpotWait
	switch {
	case w.failed:
		return time.Time{}, w, ""
	case w.decided():
		return now, w, w.endedBy
	case since == nil:
		return time.Time{}, w, ""
	}
	if w.since.IsZero() {
		w.since = now
	}
	deadline, by = f.end(w, pod.Status.NominatedNodeName != "")
	return deadline, w, by
}

// adopt begins to track a pod that this process did not ungate, with the lock held.
func (f *spotFallback) adopt(pod *corev1.Pod, p *governing.Mix, since *metav1.Time, now time.Time) *waitingPod {
	member, _ := f.Member(pod, p)
	w := f.newWaitingPod(pod, member.Group, p)
	w.verdict = fallback.Verdict{Type: capacity.Spot}
	w.notBefore = f.leadsSince.Add(min(leaderGracePeriod, p.GatedSpotWait))
	began := now
	if since != nil {
		w.since = since.Time
		if now.Before(w.since) { // by another process's clock
			w.since = now
		}
		began = w.since
	}
	f.waiting[pod.UID] = w
	f.poolOf(w).Tries(began, w.pod(pod.UID))
	return w
}

// deadline is when the wait of a pod is over.
func (w *waitingPod) deadline(nominated bool) time.Time {
	at := w.since.Add(w.wait)
	if nominated {
		// The pods that it preempted are terminating, or an autoscaler creates a node for it. That must not last.
		at = at.Add(max(w.wait, nominatedWait))
	}
	if at.Before(w.notBefore) {
		return w.notBefore
	}
	return at
}

// delete deletes a pod, unless it has changed since it was evaluated: it may have
// been bound. A lost response changes nothing: the watch reports whether the pod
// is gone.
func (f *spotFallback) delete(ctx context.Context, key types.NamespacedName, pod *corev1.Pod, p *governing.Mix) {
	if f.WaitIfFenced(ctx) != nil {
		return
	}
	var by string
	f.update(pod.UID, func(w *waitingPod) { w.deleting, by = true, w.endedBy })
	timed, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := f.client.CoreV1().Pods(pod.Namespace).Delete(timed, pod.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion},
	})
	logger := klog.FromContext(ctx)
	switch {
	case err == nil:
		f.update(pod.UID, func(w *waitingPod) { f.recordFailure(pod.UID, w, true) })
		f.queue.Forget(key)
		logger.Info("Deleted a pod that found no spot node: its successor goes to on-demand", "pod", klog.KObj(pod),
			"spotWait", p.GatedSpotWait, "reportOf", by)
		f.Events.SpotUnavailable(pod, p.GatedSpotWait, by)
	case apierrors.IsNotFound(err):
		f.queue.Forget(key)
	case apierrors.IsConflict(err):
		f.update(pod.UID, func(w *waitingPod) { w.deleting = w.decided() }) // others may be decided otherwise next time
		f.queue.AddAfter(key, conflictRetry)
	default:
		logger.Error(err, "Delete a pod that found no spot node", "pod", klog.KObj(pod))
		f.queue.AddRateLimited(key)
	}
}

// keepWaiting lets a pod wait for spot indefinitely, and records it like one that was deleted: the others need not wait as long.
func (f *spotFallback) keepWaiting(pod *corev1.Pod, p *governing.Mix, why string) {
	var by string
	f.update(pod.UID, func(w *waitingPod) {
		f.recordFailure(pod.UID, w, false)
		by = w.endedBy
	})
	f.Events.SpotUnavailableNotDeleted(pod, p.GatedSpotWait, by, why)
}

// update changes a pod that has not gone meanwhile.
func (f *spotFallback) update(uid types.UID, change func(*waitingPod)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w := f.waiting[uid]; w != nil {
		change(w)
	}
}

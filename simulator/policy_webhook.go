// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/controller"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/simulator/store"
)

// What OpenKruise's WorkloadSpread does with the strategy Adaptive.
const (
	// rescheduleAfter is how long a pod may be unschedulable before it is deleted: the largest rescheduleCriticalSeconds that is allowed.
	// With the 30 seconds of its documentation, a pod would be deleted before a node could be launched for it.
	rescheduleAfter = 147 * time.Second
	// closedFor is how long its subset gets no pods after that.
	closedFor = 5 * time.Minute
)

// subsets is the rule of a webhook with two subsets: spot nodes, up to the mix of one pod more, then on-demand nodes without a limit. A
// pod that neither of them takes is not restricted.
func subsets(m split.Mix, active split.Count, open func(capacity.Type) bool) capacity.Type {
	switch {
	case m.MissingType(active.Total(), active.Spot) == capacity.Spot && open(capacity.Spot):
		return capacity.Spot
	case open(capacity.OnDemand):
		return capacity.OnDemand
	}
	return capacity.Unknown
}

// subset does to a pod what the webhook of the policy does as it is created. Pods of another template do not count.
func (w *world) subset(of *workload, set *appsv1.ReplicaSet, pod *corev1.Pod) {
	var active split.Count
	for _, other := range of.pods {
		if controller.IsPodActive(other) && metav1.IsControlledBy(other, set) {
			active.Add(w.subsetOf(other))
		}
	}
	t := w.policy.Admit(*of.mix, active, func(t capacity.Type) bool { return !w.clock.Now().Before(of.closed[t]) })
	if t == capacity.Unknown {
		return
	}
	pod.Spec.NodeSelector = map[string]string{typeLabel: t.String()}
	w.after(rescheduleAfter, func() { w.reschedule(of, pod, t) })
}

// subsetOf is the type that a pod is restricted to, or else runs on.
func (w *world) subsetOf(pod *corev1.Pod) capacity.Type {
	if t := typeOf(pod); t != capacity.Unknown {
		return t
	}
	return w.types[pod.Spec.NodeName]
}

// reschedule deletes a pod that is still unschedulable, and closes its subset for a while: its successor gets the other one.
func (w *world) reschedule(of *workload, pod *corev1.Pod, t capacity.Type) {
	current, found := store.Get[*corev1.Pod](w.store, pod.Namespace, pod.Name)
	if !found || current.UID != pod.UID || !hasCondition(current, corev1.PodScheduled, corev1.ConditionFalse) {
		return
	}
	if now := w.clock.Now(); !now.Before(of.closed[t]) {
		of.closed[t] = now.Add(closedFor)
	}
	_ = cluster{w}.Delete(current) // pods can always be deleted
}

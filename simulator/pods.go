// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/simulator/store"
)

// holderStartup is how long a pod starts that belongs to no workload: a placeholder.
const holderStartup = 1

// podChanged does what the kubelet, the ReplicaSet controller and the autoscaler do as they see a pod.
func (w *world) podChanged(old, pod *corev1.Pod) {
	of := w.workloadOf(pod)
	w.measure.changed(w, of, old, pod)
	if pod.Spec.NodeName == "" && active(pod) {
		w.unbound[pod.UID] = pod
		if hasCondition(pod, corev1.PodScheduled, corev1.ConditionFalse) {
			w.scanSoon()
		}
	} else {
		delete(w.unbound, pod.UID)
	}
	if pod.Spec.NodeName != "" && (old == nil || old.Spec.NodeName == "") {
		w.bound(of, pod)
	}
	if of != nil {
		of.pods[pod.UID] = pod
		w.syncSoon(of)
	}
}

func (w *world) podGone(pod *corev1.Pod) {
	of := w.workloadOf(pod)
	w.measure.changed(w, of, pod, nil)
	delete(w.unbound, pod.UID)
	w.scheduler.Changed()
	if n := w.nodes[pod.Spec.NodeName]; n != nil {
		delete(n.pods, pod.UID)
		w.emptied(n)
	}
	if of != nil {
		delete(of.pods, pod.UID)
		w.syncSoon(of)
	}
}

// bound has a pod become Ready once it has started.
func (w *world) bound(of *workload, pod *corev1.Pod) {
	if n := w.nodes[pod.Spec.NodeName]; n != nil {
		n.pods[pod.UID] = pod
	}
	startup := int32(holderStartup)
	if of != nil {
		startup = of.StartupSeconds
	}
	uid := pod.UID
	w.after(seconds(startup), func() {
		current, found := store.Get[*corev1.Pod](w.store, pod.Namespace, pod.Name)
		if !found || current.UID != uid || !active(current) {
			return
		}
		current = current.DeepCopy()
		now := w.stamp()
		current.Status.Phase, current.Status.StartTime = corev1.PodRunning, &now
		w.setCondition(current, corev1.PodReady, corev1.ConditionTrue)
		w.store.Update(current)
	})
}

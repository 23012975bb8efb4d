// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/controller"

	"berth.dev/berth/simulator/store"
)

// holderStartup is how long a pod starts that belongs to no workload: a placeholder.
const holderStartup = 1

// podChanged does what the kubelet, the ReplicaSet controller and the autoscaler do as they see a pod.
func (w *world) podChanged(old, pod *corev1.Pod) {
	of := w.ownerOf(pod)
	w.measure.changed(w, w.serves(pod), old, pod)
	if pod.Spec.NodeName == "" && controller.IsPodActive(pod) {
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
	if n := w.nodes[pod.Spec.NodeName]; n != nil {
		n.put(pod)
	}
	if of != nil {
		of.pods[pod.UID] = pod
		w.syncSoon(of)
	} else if was := w.ownerOf(old); was != nil {
		delete(was.pods, pod.UID)
		w.syncSoon(was)
	}
}

func (w *world) podGone(pod *corev1.Pod) {
	w.measure.changed(w, w.serves(pod), pod, nil)
	delete(w.unbound, pod.UID)
	w.scheduler.Gone(pod.UID)
	if n := w.nodes[pod.Spec.NodeName]; n != nil {
		n.drop(pod)
		w.emptied(n)
	}
	if of := w.ownerOf(pod); of != nil {
		delete(of.pods, pod.UID)
		w.syncSoon(of)
	}
}

// changing returns a copy of a pod to be changed. It shares what lies deeper with the pod, which nobody changes: pods are most of what a
// simulation keeps.
func changing(pod *corev1.Pod) *corev1.Pod {
	p := *pod
	return &p
}

// ownerOf returns the workload whose ReplicaSet controls a pod, nil for none.
func (w *world) ownerOf(pod *corev1.Pod) *workload {
	if pod == nil {
		return nil
	}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		return w.owners[ref.UID]
	}
	return nil
}

// serves returns the workload whose Service would select a pod, nil for none: also a pod that was released from its ReplicaSet.
func (w *world) serves(pod *corev1.Pod) *workload {
	return w.apps[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Labels[appLabel]}]
}

// bound has a pod become Ready once it has started.
func (w *world) bound(of *workload, pod *corev1.Pod) {
	startup := int32(holderStartup)
	if of != nil {
		startup = of.StartupSeconds
	}
	uid := pod.UID
	w.after(seconds(startup), func() {
		current, found := store.Get[*corev1.Pod](w.store, pod.Namespace, pod.Name)
		if !found || current.UID != uid || !controller.IsPodActive(current) {
			return
		}
		current = changing(current)
		now := w.stamp()
		current.Status.Phase, current.Status.StartTime = corev1.PodRunning, &now
		w.setCondition(current, corev1.PodReady, corev1.ConditionTrue)
		w.store.Update(current)
	})
}

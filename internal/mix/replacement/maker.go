// SPDX-License-Identifier: Apache-2.0

// Package replacement determines which pod follows when a pod is gone: whether its controller creates another one, and from
// which template. It is pure.
package replacement

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Maker is the kind of a pod's controller, as far as it matters for the next pod.
type Maker int

// The makers of pods: none, an unknown kind, and the kinds of Kubernetes that create pods.
const (
	// Nobody creates no pods: there is no controller, or it is of a kind of Kubernetes that does not create pods itself. A
	// Deployment creates ReplicaSets. An operator that names one as the controller of its pods may create another pod, which
	// is unknown.
	Nobody Maker = iota
	// Unknown is a kind that Kubernetes does not have.
	Unknown
	ReplicaSet
	StatefulSet
	ReplicationController
	Job
	DaemonSet
)

// makers are the kinds of Kubernetes that create pods.
var makers = map[schema.GroupKind]Maker{
	{Group: appsv1.GroupName, Kind: "ReplicaSet"}:            ReplicaSet,
	{Group: appsv1.GroupName, Kind: "StatefulSet"}:           StatefulSet,
	{Group: appsv1.GroupName, Kind: "DaemonSet"}:             DaemonSet,
	{Group: batchv1.GroupName, Kind: "Job"}:                  Job,
	{Group: corev1.GroupName, Kind: "ReplicationController"}: ReplicationController,
}

// MakerOf returns the maker that a reference to a pod's controller names. The reference is nil for a pod without one.
func MakerOf(ref *metav1.OwnerReference) Maker {
	if ref == nil {
		return Nobody
	}
	return KindOf(ref.APIVersion, ref.Kind)
}

// KindOf is MakerOf for a kind.
func KindOf(apiVersion, name string) Maker {
	kind := schema.FromAPIVersionAndKind(apiVersion, name).GroupKind()
	if m, known := makers[kind]; known {
		return m
	}
	switch kind.Group {
	case corev1.GroupName, appsv1.GroupName, batchv1.GroupName:
		return Nobody
	}
	return Unknown
}

// Counts reports whether the controller's number of replicas counts the pods that name it as their controller. That of a
// kind of another project may count something else.
func (m Maker) Counts() bool {
	switch m {
	case ReplicaSet, StatefulSet, ReplicationController, Job:
		return true
	}
	return false
}

// Lost returns why no other pod follows a pod that is deleted before it ran, or none that costs nothing; "" if one does.
// For an owner of an unknown kind, only the restart policy is known: a pod that is to run once is a step of something that is
// not repeated.
//
// The Job controller counts a pod that was deleted before it ran as one that failed (isPodFailed in pkg/controller/job of
// Kubernetes 1.37; with podReplacementPolicy Failed the pod garbage collector marks it Failed first). Six of them end a Job
// by default, for what no pod of it did.
func Lost(pod *corev1.Pod) string {
	ref := metav1.GetControllerOfNoCopy(pod)
	switch m := MakerOf(ref); {
	case ref == nil:
		return "it has no controller that would create another"
	case m == Job:
		return "its Job would count it as failed"
	case m == Nobody:
		return fmt.Sprintf("its controller is the %s %s, which creates no pods itself", ref.Kind, ref.Name)
	case m == Unknown && RunsOnce(pod.Spec.RestartPolicy):
		return fmt.Sprintf("its restartPolicy is %s, and it is not known that the %s %s would create another", pod.Spec.RestartPolicy,
			ref.Kind, ref.Name)
	}
	return ""
}

// RunsOnce reports whether the end of a pod with a restart policy is a success or a failure for its controller. The API
// server defaults an empty one to Always.
func RunsOnce(p corev1.RestartPolicy) bool {
	return p == corev1.RestartPolicyNever || p == corev1.RestartPolicyOnFailure
}

// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"math"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	appslisters "k8s.io/client-go/listers/apps/v1"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/ptr"

	"berth.dev/berth/internal/kube/controllerref"
)

// owners are the controllers whose number of pods is known.
type owners struct {
	replicaSets  appslisters.ReplicaSetLister
	statefulSets appslisters.StatefulSetLister
	jobs         batchlisters.JobLister
	replications corelisters.ReplicationControllerLister
}

func newOwners(factory informers.SharedInformerFactory) *owners {
	return &owners{
		replicaSets:  factory.Apps().V1().ReplicaSets().Lister(),
		statefulSets: factory.Apps().V1().StatefulSets().Lister(),
		jobs:         factory.Batch().V1().Jobs().Lister(),
		replications: factory.Core().V1().ReplicationControllers().Lister(),
	}
}

// crew is how many pods a controller makes.
type crew struct {
	// atOnce is the number of pods that it has at the same time, and inAll the number that it has until its end, without those
	// that it does not replace.
	atOnce, inAll int
	// succeeded is the number of pods that have succeeded, also of those that are deleted.
	succeeded int
}

// unbounded is the crew of a controller of which this is not known.
var unbounded = crew{atOnce: math.MaxInt32, inAll: math.MaxInt32}

// replicationController is the kind of the controllers that came before ReplicaSets.
const replicationController = "ReplicationController"

// ofOneController are labels that a controller sets to a value of its own, with the kind of the controller of the pods.
var ofOneController = map[string]string{
	batchv1.JobNameLabel: controllerref.Job, batchv1.ControllerUidLabel: controllerref.Job,
	"job-name": controllerref.Job, "controller-uid": controllerref.Job, // as Jobs set them before 1.27, and still do
	appsv1.DefaultDeploymentUniqueLabelKey: controllerref.ReplicaSet,
}

// crewOf returns that of the group of a pod, which has a label by this key if the key is not empty.
//
// Pods of several controllers can have the same value of a label, such as those of all Jobs of a JobSet, and some of these
// controllers may not exist yet. So what one of them makes at once is no bound of the group, unless the label is one of a single
// controller: members would be bound without those that come later. What a controller has succeeded with counts in any case.
func (o *owners) crewOf(pod *corev1.Pod, groupLabelKey string) crew {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return unbounded
	}
	c := o.crew(pod.Namespace, ref)
	if groupLabelKey == "" || ofOneController[groupLabelKey] == controllerref.KindOf(ref) {
		return c
	}
	return crew{atOnce: unbounded.atOnce, inAll: unbounded.inAll, succeeded: c.succeeded}
}

// crew returns that of a controller in a namespace.
func (o *owners) crew(namespace string, ref *metav1.OwnerReference) crew {
	switch controllerref.KindOf(ref) {
	case controllerref.ReplicaSet:
		if rs, err := o.replicaSets.ReplicaSets(namespace).Get(ref.Name); err == nil && rs.UID == ref.UID {
			return crew{atOnce: int(ptr.Deref(rs.Spec.Replicas, 1)), inAll: math.MaxInt32}
		}
	case controllerref.StatefulSet:
		if set, err := o.statefulSets.StatefulSets(namespace).Get(ref.Name); err == nil && set.UID == ref.UID {
			return crewOfSet(set)
		}
	case controllerref.Job:
		if job, err := o.jobs.Jobs(namespace).Get(ref.Name); err == nil && job.UID == ref.UID {
			return crewOfJob(job)
		}
	case "":
		return o.ofReplicationController(namespace, ref)
	}
	return unbounded
}

// ofReplicationController returns the crew of an owner if it is a ReplicationController.
func (o *owners) ofReplicationController(namespace string, ref *metav1.OwnerReference) crew {
	if ref.Kind != replicationController || ref.APIVersion != corev1.SchemeGroupVersion.String() {
		return unbounded
	}
	rc, err := o.replications.ReplicationControllers(namespace).Get(ref.Name)
	if err != nil || rc.UID != ref.UID {
		return unbounded
	}
	return crew{atOnce: int(ptr.Deref(rc.Spec.Replicas, 1)), inAll: math.MaxInt32}
}

// crewOfSet returns that of a StatefulSet. One with OrderedReady creates a pod when the one before is ready.
func crewOfSet(set *appsv1.StatefulSet) crew {
	if set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		return crew{atOnce: 1, inAll: math.MaxInt32}
	}
	return crew{atOnce: int(ptr.Deref(set.Spec.Replicas, 1)), inAll: math.MaxInt32}
}

// crewOfJob returns that of a Job. It replaces pods that failed, but not those of an index with too many failures.
func crewOfJob(job *batchv1.Job) crew {
	c := crew{atOnce: int(ptr.Deref(job.Spec.Parallelism, 1)), inAll: math.MaxInt32, succeeded: int(job.Status.Succeeded)}
	if job.Spec.Completions != nil {
		c.inAll = int(*job.Spec.Completions) - indexes(ptr.Deref(job.Status.FailedIndexes, ""))
	}
	return c
}

// indexes returns the number of indexes in a text such as "1,3-5,7".
func indexes(text string) (n int) {
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			continue
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(to); err != nil || last < first {
				continue
			}
		}
		n += last - first + 1
	}
	return n
}

// needed is how many members of a group have to be here so that they are bound: groupSize, less those that have succeeded, but no
// more than the controller still makes. A group that is larger than a Job runs at once, or than what a rollout has created of a
// ReplicaSet, would wait without end. It is at least 1.
func needed(groupSize int, c crew, succeeded int) int {
	succeeded = max(succeeded, c.succeeded)
	return max(1, min(groupSize-succeeded, c.inAll-succeeded, c.atOnce))
}

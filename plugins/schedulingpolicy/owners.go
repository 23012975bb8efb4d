// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"math"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	appslisters "k8s.io/client-go/listers/apps/v1"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/utils/ptr"

	"berth.dev/berth/internal/kube/controllerref"
)

// owners are the controllers whose number of pods is known.
type owners struct {
	replicaSets  appslisters.ReplicaSetLister
	statefulSets appslisters.StatefulSetLister
	jobs         batchlisters.JobLister
}

func newOwners(factory informers.SharedInformerFactory) *owners {
	return &owners{
		replicaSets:  factory.Apps().V1().ReplicaSets().Lister(),
		statefulSets: factory.Apps().V1().StatefulSets().Lister(),
		jobs:         factory.Batch().V1().Jobs().Lister(),
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
	}
	return unbounded
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

// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

func TestTheSizeOfAGroupIsThatOfItsOwner(t *testing.T) {
	deployment := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "deployment", Controller: new(true)}
	replicaSet := func(replicas int32, desired string, owners ...metav1.OwnerReference) *appsv1.ReplicaSet {
		rs := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: &replicas}}
		rs.UID, rs.OwnerReferences = "owner", owners
		if desired != "" {
			rs.Annotations = map[string]string{desiredReplicasAnnotation: desired}
		}
		return rs
	}
	job := func(parallelism int32, completions *int32) *batchv1.Job {
		j := &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: &parallelism, Completions: completions}}
		j.UID = "owner"
		return j
	}
	set := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: new(int32(5))}}
	set.UID = "owner"
	own, above := governing.Member{Group: governing.GroupKey{ID: "owner"}}, governing.Member{Group: governing.GroupKey{ID: "deployment"}.Under("web")}
	inUnit := own
	inUnit.Unit = "u"
	for name, tc := range map[string]struct {
		kind   string
		owner  metav1.Object
		member governing.Member
		want   int
	}{
		"a ReplicaSet":                            {"ReplicaSet", replicaSet(4, ""), own, 4},
		"a revision that is being grown":          {"ReplicaSet", replicaSet(2, "12", deployment), own, 12},
		"a revision that is larger, by the surge": {"ReplicaSet", replicaSet(13, "12", deployment), own, 13},
		"all revisions of a Deployment":           {"ReplicaSet", replicaSet(2, "12", deployment), above, 12},
		"a ReplicaSet without a Deployment above": {"ReplicaSet", replicaSet(2, ""), above, 0},
		"a StatefulSet":                           {"StatefulSet", set, own, 5},
		"a Job":                                   {"Job", job(3, nil), own, 3},
		"a Job with fewer completions":            {"Job", job(7, new(int32(2))), own, 2},
		"a group of other pods too":               {"StatefulSet", set, governing.Member{Group: governing.GroupKey{ID: "capacitymix/web"}}, 0},
		"units of pods":                           {"StatefulSet", set, inUnit, 0},
		"an owner that is not known":              {"ReplicaSet", nil, own, 0},
		"any number":                              {"ReplicaSet", replicaSet(-5, "9223372036854775807", deployment), own, split.MaxSlot + 1},
		"no number":                               {"ReplicaSet", replicaSet(3, "many", deployment), own, 3},
		"a negative number":                       {"ReplicaSet", replicaSet(3, "-9", deployment), own, 3},
		"more than there are slots":               {"ReplicaSet", replicaSet(math.MaxInt32, ""), own, split.MaxSlot + 1},
	} {
		owners := newOwners()
		ref := metav1.OwnerReference{APIVersion: map[string]string{"Job": "batch/v1"}[tc.kind], Kind: tc.kind, Name: "web", UID: "owner", Controller: new(true)}
		if ref.APIVersion == "" {
			ref.APIVersion = "apps/v1"
		}
		if tc.owner != nil {
			tc.owner.SetNamespace("shop")
			owners.store("shop", &ref, tc.owner, nil)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", UID: types.UID("p"), OwnerReferences: []metav1.OwnerReference{ref}}}
		assert.Equal(t, tc.want, owners.Wanted(pod, tc.member), name)
	}
	assert.Zero(t, newOwners().Wanted(&corev1.Pod{}, own), "a pod without an owner")
}

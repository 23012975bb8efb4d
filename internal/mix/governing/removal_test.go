// SPDX-License-Identifier: Apache-2.0

package governing_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
)

func TestOwnersThatRemovePodsInAnyOrder(t *testing.T) {
	const cost, slot = v1alpha1.PodDeletionCostAnnotation, v1alpha1.SlotAnnotation
	for name, test := range map[string]struct {
		apiVersion, kind string
		annotations      map[string]string
		want             bool
	}{
		"ReplicaSet":                           {"apps/v1", "ReplicaSet", nil, false},
		"ReplicaSet, cost of the slot":         {"apps/v1", "ReplicaSet", map[string]string{cost: "-3", slot: "3"}, false},
		"ReplicaSet, cost of the user":         {"apps/v1", "ReplicaSet", map[string]string{cost: "7", slot: "3"}, true},
		"ReplicaSet, cost of the template":     {"apps/v1", "ReplicaSet", map[string]string{cost: "7"}, true},
		"ReplicationController":                {"v1", "ReplicationController", nil, false},
		"StatefulSet":                          {"apps/v1", "StatefulSet", map[string]string{cost: "7"}, false},
		"Job":                                  {"batch/v1", "Job", nil, true},
		"a ReplicaSet of another group":        {"example.com/v1", "ReplicaSet", nil, true},
		"a Deployment that owns pods directly": {"apps/v1", "Deployment", nil, true},
		"an unknown kind":                      {"example.com/v1", "Fleet", nil, true},
		"no owner":                             {"", "", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}}
			if test.kind != "" {
				pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: test.apiVersion, Kind: test.kind, Controller: new(true)}}
			}
			assert.Equal(t, test.want, governing.RemovedInAnyOrder(pod, nil))
			assert.Equal(t, test.want, governing.RemovedInAnyOrder(pod, &governing.Mix{}))
			respects := governing.RemovedInAnyOrder(pod, &governing.Mix{RespectCosts: true})
			assert.Equal(t, test.kind != "StatefulSet", respects, "costs of others give any order, and a StatefulSet reads none")
		})
	}
}

func TestReplicaSetsAndReplicationControllersReadDeletionCosts(t *testing.T) {
	owner := func(apiVersion, kind string) *metav1.OwnerReference {
		return &metav1.OwnerReference{APIVersion: apiVersion, Kind: kind}
	}
	assert.True(t, governing.RemovedByCost(owner("apps/v1", "ReplicaSet")))
	assert.True(t, governing.RemovedByCost(owner("v1", "ReplicationController")))
	for _, other := range []*metav1.OwnerReference{nil, owner("apps/v1", "StatefulSet"), owner("example.com/v1", "ReplicaSet"), owner("batch/v1", "Job")} {
		assert.False(t, governing.RemovedByCost(other), "%v", other)
	}
}

// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/mix/capacity"
)

// A quota system gates pods until they may run. Until then they are no replicas: the split is that of the pods that may run.
func TestPodsThatAnotherSystemGatesAreCountedWhenTheyMayRun(t *testing.T) {
	runner := ownedBy("example.com/v1", "Runner", "runner", "uid-runner")
	others := func(p *corev1.Pod) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "kueue.x-k8s.io/admission"}}
	}
	for name, gates := range map[string]func(*corev1.Pod){
		"theirs": others,
		"theirs and Berth's": func(p *corev1.Pod) {
			gated(p)
			p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "example.com/quota"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := fill(newClusterState(), nodeOf("spot", capacity.Spot), nodeOf("od", capacity.OnDemand),
				podNamed("a", made(1), runner, on("od"), slot(0)), podNamed("b", made(2), runner, on("spot"), slot(1)),
				podNamed("c", made(3), runner, gates), podNamed("d", made(4), runner, gates))
			groups := f.Groups("shop")
			require.Len(t, groups, 1)
			assert.Equal(t, 2, groups[0].Replicas)
			assert.Len(t, groups[0].Assignments, 2)
			f.SetPod(podNamed("c", made(3), runner))
			assert.Equal(t, 3, f.Groups("shop")[0].Replicas)
		})
	}
}

// The number of an owner counts them, and they are no replicas that are missing.
func TestAReplicaThatMayNotRunYetIsNotMissing(t *testing.T) {
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"}}
	rs.Spec.Replicas = new(int32(4))
	f := newClusterState()
	f.SetOwner(rs)
	others := func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/queue"}} }
	fill(f, nodeOf("spot", capacity.Spot), nodeOf("od", capacity.OnDemand), podNamed("a", made(1), owned(rs), on("od"), slot(0)),
		podNamed("b", made(2), owned(rs), on("spot"), slot(1)), podNamed("c", made(3), owned(rs), others))
	g := one(t, f)
	assert.Equal(t, 3, g.Replicas, "one has no pod yet")
	pending, _, settled := g.Counts()
	assert.Equal(t, []int{1, 2}, []int{pending, settled})
}

// SPDX-License-Identifier: Apache-2.0

package surge_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// The Deployment allows no replica to be missing. Its rollout begins while a replica of the old revision runs beside its replacement.
func TestARolloutThatBeginsDuringAReleaseCostsNoReplica(t *testing.T) {
	const replicas = 4
	w := testenv.New(t, cluster.Nodes(onDemand, 4)...)
	web := builders.Deployment("web", replicas, builders.ReadyAfter(3*time.Second))
	web.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
		MaxUnavailable: new(intstr.FromInt32(0)), MaxSurge: new(intstr.FromInt32(1)),
	}}
	w.Create(builders.CapacityMix("web", 50, 0, surge), web)
	w.WaitReady("web", replicas)
	recording := w.Record("web")
	w.AddNodes(cluster.Nodes(spot, 4)...)
	w.Controller(testenv.Impatient)
	waitReleased(w, "web")
	testenv.Patch(w, web, func(d *appsv1.Deployment) { d.Spec.Template.Annotations["revision"] = "2" })
	for _, p := range w.WaitRepaired("web", split.New(50, 0), replicas, 2*testenv.SettleTimeout) {
		assert.Equal(t, "2", p.Annotations["revision"])
		_, released := pods.ReleasedFrom(&p)
		assert.False(t, released, p.Name)
	}
	_, all := recording.FewestReady(capacity.OnDemand, replicas)
	assert.Equal(t, replicas, all, "fewest Ready replicas at any instant")
}

// A change of the mix moves ten replicas, two at a time, and a PodDisruptionBudget allows none to be missing. With BERTH_TEST_LONG, ten
// changes are 100 moves. The controller that leads is killed after each change but the first.
func TestMovesOneAfterTheOtherCostNoReplica(t *testing.T) {
	const replicas, atATime = 10, 2
	changes := testenv.Length(1, 10)
	w := testenv.New(t, append(cluster.Nodes(onDemand, 4), cluster.Nodes(spot, 4)...)...)
	w.Create(
		builders.CapacityMix("web", 0, 0, surge, builders.MaxConcurrent(atATime)),
		builders.Deployment("web", replicas, builders.ReadyAfter(400*time.Millisecond)),
		builders.PodDisruptionBudget("web", builders.MinAvailable("100%")),
	)
	w.WaitReady("web", replicas)
	recording := w.Record("web")
	c := w.Controller(testenv.Impatient)
	percent := int32(0)
	for i := range changes {
		percent = 100 - percent
		m := builders.CapacityMix("web", percent, 0)
		m.Namespace = w.Namespace
		testenv.Patch(w, m, func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent = percent })
		if i > 0 {
			waitReleased(w, "web")
			testenv.End(c, true)
			c = w.Controller(testenv.Impatient)
		}
		w.WaitRepaired("web", split.New(percent, 0), replicas, 4*testenv.SettleTimeout)
	}
	assert.Len(t, w.EvictionsOf("web"), changes*replicas, "one eviction for each move")
	_, all := recording.FewestReady(capacity.OnDemand, replicas)
	assert.Equal(t, replicas, all, "fewest Ready replicas at any instant")
	assert.LessOrEqual(t, recording.MostAtOnce(), replicas+atATime, "most pods at any instant")
}

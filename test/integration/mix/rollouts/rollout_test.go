// SPDX-License-Identifier: Apache-2.0

// Package rollouts_test replaces the pods of Deployments, by drains and by new
// revisions, on a real control plane.
package rollouts_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/specs"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{Core: []string{
		"TestARolloutIsExactWithOnDemandCapacityForOneRevision",
		"TestARollbackInTheMiddleOfARolloutIsExact",
		"TestDrainedSpotReplicasReturnToSpotWhileItHasCapacity",
	}}))
}

// capacity is one node of each type that take exactly so many pods.
func room(spot, onDemand int) []cluster.NodeSpec {
	takes := func(pods int) func(*cluster.NodeSpec) {
		return func(n *cluster.NodeSpec) { n.Pods, n.CPU = pods, "64" }
	}
	return append(cluster.Nodes("spot", 1, takes(spot)), cluster.Nodes("on-demand", 1, takes(onDemand))...)
}

// startRollout is specs.StartRollout in a world with capacity for exactly the
// on-demand pods of one revision.
func startRollout(t *testing.T, replicas, percent, floor int32, change func(*appsv1.Deployment)) specs.Rollout {
	t.Helper()
	return specs.StartRollout(tight(t, replicas, percent, floor), replicas, percent, floor, change)
}

func tight(t *testing.T, replicas, percent, floor int32) *testenv.World {
	t.Helper()
	m, n := split.New(percent, floor), int(replicas)
	return testenv.New(t, room(m.Spot(n)+specs.Surge(n), m.OnDemand(n))...)
}

func TestARolloutIsExactWithOnDemandCapacityForOneRevision(t *testing.T) {
	updateExactly(t, 10, 70, 3)
	updateExactly(t, 100, 70, 30)
}

func updateExactly(t *testing.T, replicas, percent, floor int32) {
	t.Run(fmt.Sprintf("%d replicas at %d%% floor %d", replicas, percent, floor), func(t *testing.T) {
		specs.ARollingUpdateIsExact(tight(t, replicas, percent, floor), replicas, percent, floor)
	})
}

// The floor is as large as the surge and the unavailable pods together: all
// pods that the new revision may have before the old one gives up an on-demand
// pod have on-demand slots.
func TestARollingUpdateWhoseWholeFirstStepIsOnDemandCompletes(t *testing.T) {
	updateExactly(t, 10, 50, 5)
	updateExactly(t, 100, 50, 50)
}

func TestARecreatedDeploymentIsExactWithoutSpareCapacity(t *testing.T) {
	r := startRollout(t, 30, 70, 3, func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	})
	r.Update(specs.Second)
	r.RequireDone(specs.Second)
	r.Record.RequireOnTheirTypes(r.Mix)
}

// neverReady makes a revision get stuck as soon as its first pods run.
var neverReady = builders.ReadyAfter(time.Hour)

func ready(t *corev1.PodTemplateSpec) { delete(t.Annotations, cluster.PodReadyDelay) }

func TestARollbackInTheMiddleOfARolloutIsExact(t *testing.T) {
	t.Run("10 replicas, the new revision is stuck", func(t *testing.T) {
		r := startRollout(t, 10, 70, 3, nil)
		r.Update(specs.Second, neverReady)
		r.Eventually("the rollout is stuck", func() (bool, string) {
			pods := r.Live("web")
			return len(pods) == 10+specs.Surge(10) && len(byRevision(r)) == 2, r.SplitOf(pods).String()
		})
		r.Update(specs.First, ready)
		r.RequireDone(specs.First)
		r.Record.RequireOnTheirTypes(r.Mix)
	})
	t.Run("100 replicas, the new revision is on its way", func(t *testing.T) {
		r := startRollout(t, 100, 70, 3, func(d *appsv1.Deployment) {
			builders.ReadyAfter(500 * time.Millisecond)(&d.Spec.Template)
		})
		r.Update(specs.Second)
		r.Reaches("a quarter of the new revision is Ready", 25, func() int {
			fresh := func(p *corev1.Pod) bool { return p.Spec.Containers[0].Image == specs.Second && testenv.Ready(p) }
			return len(testenv.Where(r.Live("web"), fresh))
		})
		r.Update(specs.First)
		r.RequireDone(specs.First)
		r.Record.RequireOnTheirTypes(r.Mix)
	})
}

// byRevision counts the live pods of each ReplicaSet.
func byRevision(r specs.Rollout) map[types.UID]int {
	counts := map[types.UID]int{}
	for _, p := range r.Live("web") {
		if ref := metav1.GetControllerOf(&p); ref != nil {
			counts[ref.UID]++
		}
	}
	return counts
}

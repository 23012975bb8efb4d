// SPDX-License-Identifier: Apache-2.0

// Package rollouts_test replaces the pods of Deployments, by drains and by new
// revisions, on a real control plane.
package rollouts_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/world"
)

func TestMain(m *testing.M) { os.Exit(world.Main(m, world.Options{})) }

// room is one node of each type that take exactly so many pods.
func room(spot, onDemand int) []cluster.NodeSpec {
	takes := func(pods int) func(*cluster.NodeSpec) {
		return func(n *cluster.NodeSpec) { n.Pods, n.CPU = pods, "64" }
	}
	return append(cluster.Nodes("spot", 1, takes(spot)), cluster.Nodes("on-demand", 1, takes(onDemand))...)
}

// rollout is a Deployment in a world with room for exactly the on-demand pods of
// one revision.
type rollout struct {
	*world.World
	mix      mix.Mix
	web      *appsv1.Deployment
	replicas int
	record   *world.Recording
}

// surge is a quarter of the replicas, rounded up as Kubernetes does.
func surge(replicas int) int { return (replicas + 3) / 4 }

func startRollout(t *testing.T, replicas, percent, floor int32, change func(*appsv1.Deployment)) rollout {
	t.Helper()
	m, n := mix.New(percent, floor), int(replicas)
	w := world.New(t, room(m.Spot(n)+surge(n), m.OnDemand(n))...)
	web := builders.Deployment("web", replicas)
	web.Spec.Strategy = appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge: new(intstr.FromString("25%")), MaxUnavailable: new(intstr.FromString("25%")),
		},
	}
	if change != nil {
		change(web)
	}
	w.Create(builders.CapacityMix("web", percent, floor), web)
	w.WaitReady("web", n)
	w.RequireExact("web", m, n)
	return rollout{World: w, mix: m, web: web, replicas: n, record: w.Record("web")}
}

// update gives the Deployment another image and so a new revision.
func (r rollout) update(image string, changes ...func(*corev1.PodTemplateSpec)) {
	r.T.Helper()
	world.Patch(r.World, r.web, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Image = image
		if d.Spec.Template.Annotations == nil { // empty ones are not kept by the API server
			d.Spec.Template.Annotations = map[string]string{}
		}
		for _, change := range changes {
			change(&d.Spec.Template)
		}
	})
}

// requireDone waits until all pods are Ready and of one image, and demands their exact mix.
func (r rollout) requireDone(image string) {
	r.T.Helper()
	r.Eventually("the rollout to "+image+" is complete", func() (bool, string) {
		d := &appsv1.Deployment{}
		require.NoError(r.T, r.Client.Get(r.Ctx, client.ObjectKeyFromObject(r.web), d))
		s, n := d.Status, int32(r.replicas)
		return s.ObservedGeneration == d.Generation && s.Replicas == n && s.UpdatedReplicas == n && s.AvailableReplicas == n,
			fmt.Sprintf("%d replicas, %d updated, %d available; %s", s.Replicas, s.UpdatedReplicas, s.AvailableReplicas, r.Revisions("web"))
	})
	pods := r.Live("web")
	require.Len(r.T, pods, r.replicas)
	for _, p := range pods {
		require.Equal(r.T, image, p.Spec.Containers[0].Image, "the image of pod %s", p.Name)
	}
	r.RequireExactPods(pods, r.mix)
}

func TestARollingUpdateIsExactWithOnDemandRoomForTheOldRevisionOnly(t *testing.T) {
	for _, c := range []struct{ replicas, percent, floor int32 }{
		{10, 70, 3}, {100, 70, 30},
	} {
		t.Run(fmt.Sprintf("%d replicas at %d%% floor %d", c.replicas, c.percent, c.floor), func(t *testing.T) {
			r := startRollout(t, c.replicas, c.percent, c.floor, nil)
			r.update("example.com/app:2")
			r.requireDone("example.com/app:2")
			r.record.RequireOnTheirTypes(r.mix)
		})
	}
}

// The floor is as large as the surge and the unavailable pods together: all
// pods that the new revision may have before the old one gives up an on-demand
// pod have on-demand slots.
func TestARollingUpdateWhoseWholeFirstStepIsOnDemandCompletes(t *testing.T) {
	for _, c := range []struct{ replicas, percent, floor int32 }{
		{10, 50, 5}, {100, 50, 50},
	} {
		t.Run(fmt.Sprintf("%d replicas at %d%% floor %d", c.replicas, c.percent, c.floor), func(t *testing.T) {
			r := startRollout(t, c.replicas, c.percent, c.floor, nil)
			r.update("example.com/app:2")
			r.requireDone("example.com/app:2")
			r.record.RequireOnTheirTypes(r.mix)
		})
	}
}

func TestARecreatedDeploymentIsExactWithNoRoomToSpare(t *testing.T) {
	r := startRollout(t, 30, 70, 3, func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	})
	r.update("example.com/app:2")
	r.requireDone("example.com/app:2")
	r.record.RequireOnTheirTypes(r.mix)
}

// neverReady makes a revision get stuck as soon as its first pods run.
var neverReady = builders.ReadyAfter(time.Hour)

func ready(t *corev1.PodTemplateSpec) { delete(t.Annotations, cluster.PodReadyDelay) }

func TestARollbackInTheMiddleOfARolloutIsExact(t *testing.T) {
	t.Run("10 replicas, the new revision is stuck", func(t *testing.T) {
		r := startRollout(t, 10, 70, 3, nil)
		r.update("example.com/app:2", neverReady)
		r.Eventually("the rollout is stuck", func() (bool, string) {
			pods := r.Live("web")
			return len(pods) == 10+surge(10) && len(r.byRevision()) == 2, r.SplitOf(pods).String()
		})
		r.update("example.com/app:1", ready)
		r.requireDone("example.com/app:1")
		r.record.RequireOnTheirTypes(r.mix)
	})
	t.Run("100 replicas, the new revision is on its way", func(t *testing.T) {
		r := startRollout(t, 100, 70, 3, func(d *appsv1.Deployment) {
			builders.ReadyAfter(500 * time.Millisecond)(&d.Spec.Template)
		})
		r.update("example.com/app:2")
		r.Eventually("a quarter of the new revision is Ready", func() (bool, string) {
			n := 0
			for _, p := range r.Live("web") {
				if p.Spec.Containers[0].Image == "example.com/app:2" && world.Ready(&p) {
					n++
				}
			}
			return n >= 25, fmt.Sprint(n)
		})
		r.update("example.com/app:1")
		r.requireDone("example.com/app:1")
		r.record.RequireOnTheirTypes(r.mix)
	})
}

// byRevision counts the live pods of each ReplicaSet.
func (r rollout) byRevision() map[types.UID]int {
	counts := map[types.UID]int{}
	for _, p := range r.Live("web") {
		if ref := metav1.GetControllerOf(&p); ref != nil {
			counts[ref.UID]++
		}
	}
	return counts
}

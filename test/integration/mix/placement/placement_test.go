// SPDX-License-Identifier: Apache-2.0

// Package placement_test places Deployments by their mix on a real control plane.
package placement_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/specs"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{Core: []string{
		"TestEveryExpectedValueIsExactTheMomentAllPodsAreBound",
		"TestThreeDeploymentsAtOnceAreExactEach",
		"TestAMixInAnnotationsNeedsNoOtherObject",
		"TestACapacityMixHoldsWhenItsPodsAreSeenBeforeIt",
	}}))
}

func TestEveryExpectedValueIsExactTheMomentAllPodsAreBound(t *testing.T) {
	specs.ExpectedValuesHold(testenv.New(t, testenv.Roomy()...))
}

func TestScalingIsExactAfterEveryStep(t *testing.T) {
	specs.ScalingIsExactAfterEveryStep(testenv.New(t, testenv.Roomy()...), 20)
}

func TestAMixInAnnotationsNeedsNoOtherObject(t *testing.T) {
	specs.AnnotationsAreEnough(testenv.New(t, testenv.Roomy()...))
}

// Published peers accept 5..9 of 10 and 14..18 of 20 here.
func TestABurstIsExactTheMomentAllItsPodsAreBound(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	for _, burst := range []struct{ replicas, percent, floor int32 }{
		{10, 70, 1}, {10, 50, 0}, {20, 80, 1}, {20, 73, 7}, {200, 70, 5}, {200, 50, 120},
	} {
		w.Run(fmt.Sprintf("%d pods at %d%% floor %d", burst.replicas, burst.percent, burst.floor), func(t *testing.T, w *testenv.World) {
			app := fmt.Sprintf("burst-%d-%d", burst.replicas, burst.percent)
			web := builders.Deployment(app, burst.replicas)
			w.Create(builders.CapacityMix(app, burst.percent, burst.floor), web)
			w.RequireExact(app, split.New(burst.percent, burst.floor), int(burst.replicas))
			w.Scale(web, 0)
			w.WaitBound(app, 0)
		})
	}
}

// workload is a Deployment with the mix it is to have.
type workload struct {
	*appsv1.Deployment
	mix split.Mix
}

// createAtOnce creates objects without waiting for one before the next.
func createAtOnce(w *testenv.World, objects ...client.Object) {
	w.T.Helper()
	var g errgroup.Group
	for _, o := range objects {
		o.SetNamespace(w.Namespace)
		g.Go(func() error { return w.Client.Create(w.Ctx, o) })
	}
	require.NoError(w.T, g.Wait())
}

func TestThreeDeploymentsAtOnceAreExactEach(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	var objects []client.Object
	var workloads []workload
	for _, d := range []struct {
		app                      string
		replicas, percent, floor int32
	}{{"cart", 60, 70, 2}, {"shop", 45, 33, 0}, {"mail", 52, 90, 20}} {
		w.Create(builders.CapacityMix(d.app, d.percent, d.floor))
		deployment := builders.Deployment(d.app, d.replicas)
		objects = append(objects, deployment)
		workloads = append(workloads, workload{deployment, split.New(d.percent, d.floor)})
	}
	createAtOnce(w, objects...)
	for _, d := range workloads {
		w.RequireExact(d.Name, d.mix, int(*d.Spec.Replicas))
	}
}

func TestAMixOnTheDeploymentHoldsFromItsVeryFirstPod(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	for round := range 4 {
		w.Run(fmt.Sprintf("round %d", round), func(t *testing.T, w *testenv.World) {
			var objects []client.Object
			var workloads []workload
			for i, d := range []struct {
				replicas       int32
				percent, floor int
			}{{10, 70, 1}, {10, 0, 0}, {10, 100, 0}, {10, 80, 3}, {20, 50, 0}, {20, 20, 10}, {5, 80, 4}, {7, 50, 1}} {
				deployment := builders.Deployment(fmt.Sprintf("at-once-%d-%d", round, i), d.replicas)
				deployment.Annotations = builders.MixAnnotations(d.percent, d.floor)
				objects = append(objects, deployment)
				workloads = append(workloads, workload{deployment, split.New(int32(d.percent), int32(d.floor))})
			}
			createAtOnce(w, objects...)
			for _, d := range workloads {
				pods := w.RequireExact(d.Name, d.mix, int(*d.Spec.Replicas))
				for _, p := range pods {
					require.Equal(t, "annotations/controller", p.Annotations["berth.dev/mix"], "the source of the mix of pod %s", p.Name)
				}
			}
			for _, d := range workloads {
				w.Delete(d.Deployment)
			}
		})
	}
}

func TestABurstOf200WithItsMixOnTheDeploymentIsExact(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	for round := range 2 {
		web := builders.Deployment(fmt.Sprintf("web-%d", round), 200)
		web.Annotations = builders.MixAnnotations(65, 3)
		w.Create(web)
		w.RequireExact(web.Name, split.New(65, 3), 200)
		w.Delete(web)
		w.WaitBound(web.Name, 0)
	}
}

// lateScheduler starts a scheduler whose watch of a resource is that much later.
func lateScheduler(w *testenv.World, resource string, lag time.Duration) (schedulerName string) {
	const late = "late-scheduler"
	o := w.Variant(testenv.SecondScheduler, func(c testenv.Config) {
		for _, profile := range c.Profiles() {
			profile["schedulerName"] = late
		}
	})
	o.Name, o.Kubeconfig = late, w.LaggingKubeconfig(resource, lag)
	s := w.StartScheduler(o)
	w.T.Cleanup(func() { testenv.Kill(s) })
	return late
}

// The scheduler sees pods and ReplicaSets by different watches. Here that of the
// ReplicaSets is late, so every pod is there before the owner it gets its mix from.
func TestADeploymentMixHoldsForPodsSeenBeforeTheirReplicaSet(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	late := lateScheduler(w, "replicasets", testenv.SettleTimeout)
	for i, d := range []struct {
		replicas       int32
		percent, floor int
	}{{10, 70, 1}, {20, 50, 0}, {10, 0, 0}, {10, 100, 0}} {
		web := builders.Deployment(fmt.Sprintf("web-%d", i), d.replicas, builders.SchedulerName(late))
		web.Annotations = builders.MixAnnotations(d.percent, d.floor)
		w.Create(web)
		w.RequireExact(web.Name, split.New(int32(d.percent), int32(d.floor)), int(d.replicas))
	}
}

// The same for the CapacityMix, which `kubectl apply` of one file creates in the same moment: its watch is late, so all
// pods are there before it.
func TestACapacityMixHoldsWhenItsPodsAreSeenBeforeIt(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	late := lateScheduler(w, "capacitymixes", 2*time.Second)
	w.Create(builders.Deployment("bystander", 3, builders.SchedulerName(late)))
	rows := []struct{ replicas, percent, floor int32 }{{10, 70, 1}, {20, 50, 0}, {10, 0, 0}, {10, 100, 0}}
	for i, d := range rows {
		name := fmt.Sprintf("web-%d", i)
		w.Create(builders.CapacityMix(name, d.percent, d.floor), builders.Deployment(name, d.replicas, builders.SchedulerName(late)))
	}
	for i, d := range rows {
		w.RequireExact(fmt.Sprintf("web-%d", i), split.New(d.percent, d.floor), int(d.replicas))
	}
	w.WaitBound("bystander", 3)
}

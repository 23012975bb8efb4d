// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

const (
	sparkRole = "spark-role"
	rayType   = "ray.io/node-type"
)

var (
	driverOnDemand = withRole("driver", v1alpha1.CapacityTypeOnDemand, sparkRole, "driver")
	headOnDemand   = withRole("head", v1alpha1.CapacityTypeOnDemand, rayType, "head")
)

// startDriver makes a SparkApplication and its driver, which is the controller of the executors.
func startDriver(w *testenv.World, app, name string) *corev1.Pod {
	w.T.Helper()
	a := custom(w, sparkApplication, name, nil)
	driver := builders.Pod(app, name+"-driver", runsOnce, below(w, a), labeled(sparkRole, "driver",
		"spark-app-selector", "spark-"+name, "sparkoperator.k8s.io/app-name", name))
	w.Create(driver)
	return driver
}

// execute makes executors of a driver, numbered from first.
func execute(w *testenv.World, app string, driver *corev1.Pod, first, n int) {
	w.T.Helper()
	for i := range n {
		id := fmt.Sprint(first + i)
		w.Create(builders.Pod(app, driver.Name+"-exec-"+id, runsOnce, below(w, driver), labeled(sparkRole, "executor",
			"spark-exec-id", id, "spark-app-selector", driver.Labels["spark-app-selector"],
			"sparkoperator.k8s.io/app-name", driver.Labels["sparkoperator.k8s.io/app-name"])))
	}
}

// requireOnDemand demands that pods run on on-demand nodes.
func requireOnDemand(w *testenv.World, pods []corev1.Pod) {
	w.T.Helper()
	require.NotEmpty(w.T, pods)
	require.Equal(w.T, testenv.Split{OnDemand: len(pods)}, w.SplitOf(pods))
}

// With 100 % all executors are on spot, and only the role keeps the driver on on-demand. Counted with the executors, the driver would be
// one of the pods of 80 %.
func TestADriverRunsOnDemandAndItsExecutorsByTheMix(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	for name, mix := range map[string]*v1alpha1.CapacityMix{
		"by-controller": builders.CapacityMix("by-controller", 100, 0, driverOnDemand),
		"by-selector":   builders.CapacityMix("by-selector", 80, 0, driverOnDemand, grouped(v1alpha1.PodGroupingSelector)),
	} {
		m := split.New(mix.Spec.SpotPercent, 0)
		w.Create(mix)
		driver := startDriver(w, name, name)
		w.WaitBound(name, 1)
		executors := 0
		for _, n := range []int{1, 5, 10, 20} {
			execute(w, name, driver, executors, n-executors)
			executors = n
			pods := w.WaitBound(name, n+1)
			w.RequireExactPods(having(pods, sparkRole, "executor"), m)
			requireOnDemand(w, having(pods, sparkRole, "driver"))
		}

		// Executors go as their work ends, and the next ones have other numbers.
		gone := having(w.Live(name), sparkRole, "executor")[3:9]
		for i := range gone {
			w.Delete(&gone[i])
		}
		w.WaitGone(gone)
		execute(w, name, driver, executors, len(gone))
		pods := w.WaitBound(name, 21)
		w.RequireExactPods(having(pods, sparkRole, "executor"), m)
	}
}

// By default the executors of each driver are a group: of two executors one is on spot. By selector the four of them are one: three.
func TestTheExecutorsOfSeveralApplications(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(80, 0)
	w.Create(builders.CapacityMix("each", 80, 0, driverOnDemand))
	w.Create(builders.CapacityMix("all", 80, 0, driverOnDemand, grouped(v1alpha1.PodGroupingSelector)))
	for _, app := range []string{"each", "all"} {
		for i := range 2 {
			execute(w, app, startDriver(w, app, fmt.Sprint(app, i)), 0, 2)
		}
	}
	executors := having(w.WaitBound("each", 6), sparkRole, "executor")
	requireEach(w, byOwner(executors), 2, m)
	require.Equal(t, testenv.Split{Spot: 2, OnDemand: 2}, w.SplitOf(executors))

	all := w.WaitBound("all", 6)
	w.RequireExactPods(having(all, sparkRole, "executor"), m)
	require.Equal(t, testenv.Split{Spot: 3, OnDemand: 1}, w.SplitOf(having(all, sparkRole, "executor")))
	requireOnDemand(w, having(all, sparkRole, "driver"))
}

// ray makes pods of a RayCluster.
func ray(w *testenv.World, app string, c client.Object, nodeType string, first, n int, labels ...string) {
	w.T.Helper()
	group := nodeType
	if nodeType == "head" {
		group = "headgroup"
	}
	for i := range n {
		w.Create(builders.Pod(app, fmt.Sprintf("%s-%s-%d", c.GetName(), nodeType, first+i), below(w, c), labeled(append(labels,
			"ray.io/cluster", c.GetName(), "ray.io/is-ray-node", "yes", rayType, nodeType, "ray.io/group", group)...)))
	}
}

func TestAHeadRunsOnDemandAndTheWorkersOfItsClusterByTheMix(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(70, 2)
	w.Create(builders.CapacityMix("ray", 70, 2, headOnDemand))
	c := custom(w, rayCluster, "ray", nil)
	ray(w, "ray", c, "head", 0, 1)
	workers := 0
	for _, n := range []int{2, 3, 10} {
		ray(w, "ray", c, "worker", workers, n-workers)
		workers = n
		pods := w.WaitBound("ray", n+1)
		w.RequireExactPods(having(pods, rayType, "worker"), m)
		requireOnDemand(w, having(pods, rayType, "head"))
	}
	head := having(w.Live("ray"), rayType, "head")
	w.Delete(&head[0])
	w.WaitGone(head)
	ray(w, "ray", c, "head", 1, 1)
	pods := w.WaitBound("ray", 11)
	require.Equal(t, testenv.Split{Spot: 7, OnDemand: 3}, w.SplitOf(having(pods, rayType, "worker")), "the workers without the head")
	requireOnDemand(w, having(pods, rayType, "head"))
}

// Without a role the head is one of the pods of its cluster.
func TestTheHeadCountsWithItsClusterIfItHasNoRole(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("ray", 70, 2))
	c := custom(w, rayCluster, "ray", nil)
	ray(w, "ray", c, "head", 0, 1)
	ray(w, "ray", c, "worker", 0, 9)
	w.RequireExact("ray", split.New(70, 2), 10)
}

func TestTheHostsOfARayReplicaAreAUnit(t *testing.T) {
	const replica = "ray.io/worker-group-replica-name"
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(60, 1)
	w.Create(builders.CapacityMix("ray", 60, 1, headOnDemand,
		inUnits(v1alpha1.PodUnit{Type: v1alpha1.PodUnitLabel, LabelKey: replica})))
	c := custom(w, rayCluster, "ray", nil)
	record := w.Record("ray")
	ray(w, "ray", c, "head", 0, 1)
	for n := range 10 {
		ray(w, "ray", c, "worker", 2*n, 2, replica, fmt.Sprintf("workers-%c", 'a'+n))
		pods := having(w.WaitBound("ray", 2*n+3), rayType, "worker")
		requireUnits(w, byLabel(pods, replica), 2, m)
	}
	require.Equal(t, testenv.Split{Spot: 12, OnDemand: 8}, w.SplitOf(having(w.Live("ray"), rayType, "worker")))

	// Any replica may go, and the next one has another name.
	gone := having(w.Live("ray"), replica, "workers-c")
	for i := range gone {
		w.Delete(&gone[i])
	}
	w.WaitGone(gone)
	ray(w, "ray", c, "worker", 20, 2, replica, "workers-next")
	requireUnits(w, byLabel(having(w.WaitBound("ray", 21), rayType, "worker"), replica), 2, m)
	requireUnitsWhole(w, record, w.Types(), replica)
}

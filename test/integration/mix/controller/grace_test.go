// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// grace is how long nothing may be moved.
var grace = testenv.Length(10*time.Second, time.Minute)

// patient has a lease that outlasts a short outage, however long a busy machine
// takes to start the API server again, and a grace.
func patient(c *controller.Configuration) {
	c.LeaderElection = controller.Default().LeaderElection
	c.LeaderElection.LeaseDurationSeconds = 60
	c.LeaderElection.RenewDeadlineSeconds = 50
	c.Mix.Rebalance.StartupGraceSeconds = int32(grace.Seconds())
}

func TestNoMovesInTheGraceAfterAStartOrAnOutage(t *testing.T) {
	outage := testenv.Length(6*time.Second, 9*time.Second)
	w := stray(t, time.Second)
	c := w.Controller(testenv.Impatient, patient)
	w.WaitBlocked("web", "StartupGrace", "nothing is moved until")
	leads := w.AcquiredAt("berth-controller")
	w.UpTo(grace + testenv.SettleTimeout).WaitEvictions(1)
	first := w.Evictions()[0].At
	assert.GreaterOrEqual(t, first.Sub(leads), grace, "the first eviction after the controller came to lead")

	require.NoError(t, w.Cluster.StopComponent(cluster.APIServer))
	down := time.Now()
	before := len(w.Evictions()) // the audit log is a file
	require.Less(t, before, away, "there is something left to do")
	w.Always(outage, "the controller lives on", func() (bool, string) { return testenv.Runs(c) })
	back := time.Now()
	require.NoError(t, w.Cluster.StartComponent(w.Ctx, cluster.APIServer))
	w.WaitRepaired("web", seventy, replicas, grace+2*testenv.SettleTimeout)
	after := w.Evictions()[before:]
	require.NotEmpty(t, after)
	for _, e := range after {
		require.True(t, e.At.After(down))
		assert.GreaterOrEqual(t, e.At.Sub(back), grace, "%s after the API server was started again: %s", e.At.Sub(back), e)
	}
	assertEvicted(w, away+1) // what was on its way when the API server went may have to be moved again
	runs, log := testenv.Runs(c)
	require.True(t, runs, "the controller ended: %s", log)
	testenv.End(c, false) // which gives up the lease for the next test
	t.Logf("the first eviction came %s after the API server was started again", after[0].At.Sub(back))
}

// The watch of pods stalls, and replicas that it still shows are gone.
func TestNothingIsEvictedByAStaleWatch(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", replicas))
	w.WaitExact("web", seventy, replicas, testenv.SettleTimeout)
	kubeconfig, stalled := w.StallingKubeconfigOf(cluster.BerthControllerUser, "pods")
	w.StartControllerWith(cluster.ProgramOptions{Name: "berth-controller", Kubeconfig: kubeconfig}, testenv.Impatient)
	w.WaitSatisfied("web")

	stalled.Store(true)
	for _, pod := range w.Live("web")[:2] {
		w.Delete(&pod)
	}
	w.WaitReady("web", replicas) // other ones, which the controller does not see
	w.ChangeMix("web", builders.SpotPercent(30))
	w.WaitBlocked("web", "StaleView", "which the watch has not shown yet")
	testenv.Stays(w, testenv.Holds, "nothing is evicted", 0, w.Evicted)
	stalled.Store(false)
	w.WaitExact("web", split.New(30, 2), replicas, 2*testenv.SettleTimeout)
}

// The API server stalls in the middle of many evictions, and goes on.
func TestNothingIsEvictedInTheGraceAfterTheAPIServerStalls(t *testing.T) {
	const workloads = 30
	w := testenv.New(t, cluster.Nodes("on-demand", 4)...)
	for i := range workloads {
		app := fmt.Sprintf("w%d", i)
		w.Create(builders.CapacityMix(app, 100, 0), builders.Deployment(app, 2))
	}
	for i := range workloads {
		w.WaitReady(fmt.Sprintf("w%d", i), 2)
	}
	w.AddNodes(cluster.Nodes("spot", 6)...)
	w.Controller(testenv.Impatient, patient, func(c *controller.Configuration) {
		c.Mix.Rebalance.StartupGraceSeconds = 10
		c.Mix.Rebalance.ClusterMaxConcurrent = workloads
	})
	w.UpTo(10*time.Second + testenv.SettleTimeout).WaitEvictions(1)
	api := w.Cluster.Component(cluster.APIServer)
	api.Pause()
	before := w.Evicted() // the audit log is a file
	require.Less(t, before, workloads, "there is something left to do")
	stood := time.NewTimer(15 * time.Second)
	<-stood.C
	back := time.Now()
	api.Resume()
	w.UpTo(10*time.Second + 2*testenv.SettleTimeout).WaitEvictions(workloads)
	var early []string
	for _, e := range w.Evictions()[before:] {
		if d := e.At.Sub(back); d < 10*time.Second {
			early = append(early, fmt.Sprintf("%s %s", d, e.Name))
		}
	}
	// One may have been under way when the API server was stopped, and cannot be taken back.
	assert.LessOrEqual(t, len(early), 1, strings.Join(early, ", "))
}

// A watch is behind by two changes of the mix: replicas that belong where they are again are not moved by the first one.
func TestNothingIsEvictedByAStaleMix(t *testing.T) {
	thirty := split.New(30, 2)
	for resource, c := range map[string]struct {
		create func(w *testenv.World)
		change func(w *testenv.World, m split.Mix)
	}{
		"capacitymixes": {
			func(w *testenv.World) {
				w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", replicas))
			},
			func(w *testenv.World, m split.Mix) { w.ChangeMix("web", builders.SpotPercent(m.SpotPercent)) },
		},
		"replicasets": {
			func(w *testenv.World) {
				d := builders.Deployment("web", replicas)
				d.Annotations = builders.MixAnnotations(70, 2)
				w.Create(d)
			},
			func(w *testenv.World, m split.Mix) {
				testenv.Patch(w, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "web"}}, func(d *appsv1.Deployment) {
					maps.Copy(d.Annotations, builders.MixAnnotations(int(m.SpotPercent), int(m.MinOnDemand)))
				})
			},
		},
	} {
		t.Run(resource, func(t *testing.T) {
			w := testenv.New(t, testenv.Roomy()...)
			c.create(w)
			w.Create(builders.PodDisruptionBudget("web", builders.MaxUnavailable("0")))
			w.WaitExact("web", seventy, replicas, testenv.SettleTimeout)
			kubeconfig, stalled := w.StallingKubeconfigOf(cluster.BerthControllerUser, resource)
			leader := w.StartControllerWith(cluster.ProgramOptions{Name: "berth-controller", Kubeconfig: kubeconfig}, testenv.Impatient)
			blocked := func(reason string) func() int {
				return func() int {
					return w.Metric(leader, "berth_mix_blocked_workloads", map[string]string{"reason": reason})
				}
			}
			c.change(w, thirty)
			w.Reaches("replicas that have to move wait for their budget", 1, blocked("DisruptionBudget"))
			stalled.Store(true)
			c.change(w, seventy)
			testenv.Patch(w, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "web"}},
				func(b *policyv1.PodDisruptionBudget) { b.Spec.MaxUnavailable = new(intstr.FromInt32(1)) })
			w.Reaches("the change that the controller has not seen is read", 1, blocked("StaleView"))
			testenv.Stays(w, testenv.Holds, "nothing is evicted", 0, w.Evicted)
			stalled.Store(false)
			w.RequireExact("web", seventy, replicas)
		})
	}
}

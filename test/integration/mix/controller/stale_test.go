// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// S4: the watch of pods stands still, and replicas that it still shows are gone.
func TestNothingIsEvictedByAStaleWatch(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", replicas))
	w.WaitExact("web", seventy, replicas, testenv.SettleTimeout)
	kubeconfig, stalled := w.StallingKubeconfigOf(cluster.BerthControllerUser, "pods")
	w.StartControllerVia(kubeconfig, "berth-controller", testenv.Impatient)
	w.WaitSatisfied("web")

	stalled.Store(true)
	for _, pod := range w.Live("web")[:2] {
		w.Delete(&pod)
	}
	w.WaitReady("web", replicas) // other ones, which the controller does not see
	w.ChangeMix("web", func(cm *v1alpha1.CapacityMix) { cm.Spec.SpotPercent = 30 })
	w.WaitBlocked("web", "StaleView", "which the watch has not shown yet")
	w.Always(holds, "nothing is evicted", func() (bool, string) { n := len(w.Evictions()); return n == 0, fmt.Sprint(n) })
	stalled.Store(false)
	w.WaitExact("web", split.New(30, 2), replicas, 2*testenv.SettleTimeout)
}

// D11: the API server stands still in the middle of many evictions, and goes on.
func TestNothingIsEvictedInTheGraceAfterTheAPIServerStoodStill(t *testing.T) {
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
	w.Within(10*time.Second+testenv.SettleTimeout, "a pod is evicted", func() (bool, string) { return len(w.Evictions()) > 0, "" })
	api := w.Cluster.Component(cluster.APIServer)
	api.Pause()
	before := len(w.Evictions()) // the audit log is a file
	require.Less(t, before, workloads, "there is something left to do")
	stood := time.NewTimer(12 * time.Second)
	<-stood.C
	back := time.Now()
	api.Resume()
	w.Within(10*time.Second+2*testenv.SettleTimeout, "evictions go on", func() (bool, string) {
		n := len(w.Evictions())
		return n >= workloads, fmt.Sprint(n)
	})
	var early []string
	for _, e := range w.Evictions()[before:] {
		if d := e.At.Sub(back); d < 10*time.Second {
			early = append(early, fmt.Sprintf("%s %s", d, e.Name))
		}
	}
	// One may have been under way when the API server was stopped, and cannot be taken back.
	assert.LessOrEqual(t, len(early), 1, strings.Join(early, ", "))
}

// SPDX-License-Identifier: Apache-2.0

// Package scale_test runs Berth against many pods. It takes minutes and is not
// part of `make test`: `make test-scale`.
package scale_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/perf/bench"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

const (
	workloads = 50 // in each namespace
	replicas  = 10
	// patience bounds whatever is waited for, of one wave of namespaces.
	patience = 15 * time.Minute
	// wave is how many namespaces are filled at a time: what piles up makes the API server slower for all.
	wave = 20
	// envSize multiplies namespaces: 10 is 100,000 pods, which takes most of an hour.
	envSize = "BERTH_SCALE"
)

// size is how much there is, and what memory the controller may have resident, in MB: at all times, with a move's snapshot too.
type size struct{ namespaces, spotNodes, otherNodes, maxRSS int }

var sizes = map[string]size{
	"": {20, 300, 200, 110},
	// 100 pods on a node: heartbeats of 5,000 nodes alone keep a small machine's API server busy.
	"10": {200, 700, 500, 450},
}

// 1,000 workloads with 10,000 pods on 500 nodes.
func TestTheControllerReconcilesAThousandWorkloadsInLittleMemory(t *testing.T) {
	s, known := sizes[os.Getenv(envSize)]
	require.True(t, known, "%s=%s", envSize, os.Getenv(envSize))
	namespaces, maxRSS := s.namespaces, s.maxRSS
	w := testenv.New(t, append(cluster.Nodes("spot", s.spotNodes), cluster.Nodes("on-demand", s.otherNodes)...)...)
	began := time.Now()
	names := fill(t, w, namespaces)
	t.Logf("%d pods placed and Ready after %s", namespaces*workloads*replicas, time.Since(began).Round(time.Second))

	c := w.Controller(func(c *controller.Configuration) {
		c.Mix.Rebalance.StartupGraceSeconds = 0
		c.Mix.Rebalance.StabilizationSeconds = 0
	})
	began = time.Now()
	patient := w.UpTo(patience)
	patient.Reaches("mixes that have their status", namespaces*workloads, func() int {
		return w.Metric(c, "berth_mix_status_writes_total", nil)
	})
	t.Logf("all statuses written %s after the controller led", time.Since(began).Round(100*time.Millisecond))
	all, satisfied := count(w, names)
	require.Equal(t, namespaces*workloads, all)
	require.Equal(t, all, satisfied, "mixes that are satisfied")
	rss := peakRSS(t, c.PID())
	t.Logf("peak RSS without a move: %d MB", rss)
	assert.Less(t, rss, maxRSS, "peak RSS in MB")

	// Moves need a snapshot of all pods.
	cm := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: names[0], Name: "app-0"}}
	testenv.Patch(w, cm, builders.SpotPercent(30))
	began = time.Now()
	testenv.WaitForIn(patient, cm.Namespace, cm.Name, "the changed mix is satisfied", func(cm *v1alpha1.CapacityMix) bool {
		return cm.Status.ObservedGeneration == cm.Generation && cm.Status.SatisfiedCount == 1 && cm.Status.Desired.Spot == 3
	})
	t.Logf("4 replicas moved in %s", time.Since(began).Round(100*time.Millisecond))
	patient.Reaches("looks at everything", 2, func() int {
		return w.Metric(c, "berth_mix_reconcile_duration_seconds_count", map[string]string{"scope": "all"})
	})
	t.Log(text(t, w, c, `berth_mix_reconcile_duration_seconds_(sum|count)\S*`), text(t, w, c, `berth_mix_simulation_duration_seconds_(sum|count)`))
	rss = peakRSS(t, c.PID())
	t.Logf("peak RSS with moves: %d MB", rss)
	assert.Less(t, rss, maxRSS, "peak RSS in MB")
}

// fill makes the workloads, wave by wave, and waits until they are Ready.
func fill(t *testing.T, w *testenv.World, namespaces int) (names []string) {
	t.Helper()
	for n := range namespaces {
		names = append(names, fmt.Sprintf("%s-%d", w.Namespace, n))
	}
	for some := range slices.Chunk(names, wave) {
		var g errgroup.Group
		g.SetLimit(8)
		for _, name := range some {
			require.NoError(t, w.Cluster.CreateNamespace(w.Ctx, name))
			t.Cleanup(func() { _ = w.Kube.CoreV1().Namespaces().Delete(w.Ctx, name, metav1.DeleteOptions{}) })
			for i := range workloads {
				g.Go(func() error { return createWorkload(w, name, fmt.Sprintf("app-%d", i)) })
			}
		}
		require.NoError(t, g.Wait())
		for _, name := range some {
			waitReady(w, name)
		}
	}
	return names
}

// createWorkload makes a workload with its mix.
func createWorkload(w *testenv.World, namespace, app string) error {
	for _, o := range []client.Object{builders.CapacityMix(app, 70, 2), builders.Deployment(app, replicas)} {
		o.SetNamespace(namespace)
		if err := w.Client.Create(w.Ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func waitReady(w *testenv.World, namespace string) {
	w.T.Helper()
	reach(w, "Ready pods of "+namespace, workloads*replicas, time.Second, func() (ready int) {
		list, err := w.Kube.AppsV1().Deployments(namespace).List(w.Ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return 0
		}
		for _, d := range list.Items {
			ready += int(d.Status.ReadyReplicas)
		}
		return ready
	})
}

// reach waits until as many are counted as wanted. It does not count all the time: a list of that much keeps the API server from its
// work.
func reach(w *testenv.World, what string, want int, every time.Duration, count func() int) {
	w.T.Helper()
	n, next := 0, time.Time{}
	w.Within(patience, what, func() (bool, string) {
		if time.Now().After(next) {
			n, next = count(), time.Now().Add(every)
		}
		return n == want, strconv.Itoa(n)
	})
}

func count(w *testenv.World, names []string) (all, satisfied int) {
	w.T.Helper()
	for _, name := range names {
		for _, m := range testenv.List(w, &v1alpha1.CapacityMixList{}, client.InNamespace(name)).Items {
			all++
			if testenv.Condition(&m.Status, v1alpha1.ConditionSatisfied, true, v1alpha1.ReasonExact) {
				satisfied++
			}
		}
	}
	return all, satisfied
}

// text returns the lines of /metrics that begin with a name.
func text(t *testing.T, w *testenv.World, c *cluster.Controller, name string) string {
	t.Helper()
	body, err := c.Get(w.Ctx, "/metrics")
	require.NoError(t, err)
	out := ""
	for _, line := range regexp.MustCompile(`(?m)^`+name+`.*$`).FindAll(body, -1) {
		out += "\n" + string(line)
	}
	return out
}

// peakRSS returns the largest resident memory of a process so far, in MB.
func peakRSS(t *testing.T, pid int) int {
	t.Helper()
	p, err := bench.ReadProcess(pid)
	require.NoError(t, err)
	return int(p.PeakBytes) >> 20
}

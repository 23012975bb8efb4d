// SPDX-License-Identifier: Apache-2.0

// Package throughput_test measures how many pods a second berth-scheduler binds
// on a real API server, with and without ResourceLimits. docs/performance.md has
// the figures.
package throughput_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/perf/bench"
	"berth.dev/berth/test/testenv"
)

// enable has it run: it starts a control plane, which `make bench` should not.
const enable = "BERTH_BENCH_LIMITS"

const (
	limits = 5_000
	// perRound pods are bound in turn without and with limits; rounds of both make 10,000 pods.
	perRound, rounds = 500, 10
	nodes            = 150
	// listGoal is the promise for the p99 of a list of all limits, in milliseconds.
	listGoal = 2_000.0
)

func TestMain(m *testing.M) {
	if os.Getenv(enable) == "" {
		os.Exit(m.Run())
	}
	os.Exit(testenv.Main(m, testenv.Options{}))
}

// TestLimitsDoNotSlowSchedulingDown has the scheduler bind 10,000 pods in
// rounds: while it is stopped the pods of a round are created, then it goes on
// and the time until the last is bound counts. Half of the rounds have pods that
// name a limit, one of 5,000; who begins changes.
func TestLimitsDoNotSlowSchedulingDown(t *testing.T) {
	if os.Getenv(enable) == "" {
		t.Skip(enable + " is not set")
	}
	w := testenv.New(t, append(cluster.Nodes("spot", nodes/2), cluster.Nodes("on-demand", nodes/2)...)...)
	inParallel(t, limits, func(i int) error {
		l := builders.ResourceLimit(fmt.Sprintf("size-%d", i), builders.SizeCPU("100m", "2"))
		l.Namespace = w.Namespace
		return w.Client.Create(w.Ctx, l)
	})
	took, _, err := bench.Saturated(1, 100, func(int) error {
		all := &v1alpha1.ResourceLimitList{}
		err := w.Client.List(w.Ctx, all, client.InNamespace(w.Namespace))
		if err == nil && len(all.Items) != limits {
			err = fmt.Errorf("a list has %d limits", len(all.Items))
		}
		return err
	})
	require.NoError(t, err)
	lists := bench.Milliseconds(took)
	p99 := bench.Quantile(lists, 0.99)
	t.Logf("list of %d limits: p50 %.0f ms, p99 %.0f ms", limits, bench.Quantile(lists, 0.5), p99)
	require.Less(t, p99, listGoal)

	sides := []string{"without", "with"}
	pace := [2][]float64{}
	var ratios []float64
	for round := range rounds + 1 { // the first warms up
		var now [2]float64
		for turn := range sides {
			side := (turn + round) % 2
			now[side] = bind(w, fmt.Sprintf("%s-%d", sides[side], round), side == 1, round)
		}
		if round > 0 {
			pace[0], pace[1] = append(pace[0], now[0]), append(pace[1], now[1])
			ratios = append(ratios, now[1]/now[0])
		}
	}
	t.Logf("pods a second, medians of %d rounds: without %.0f, with %.0f; ratio of each round: median %.3f, from %.2f to %.2f",
		rounds, bench.Median(pace[0]), bench.Median(pace[1]), bench.Median(ratios), slices.Min(ratios), slices.Max(ratios))
}

func inParallel(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	_, _, err := bench.Saturated(16, n, do)
	require.NoError(t, err)
}

// bind returns how many of a round's pods are bound a second.
func bind(w *testenv.World, app string, sized bool, round int) float64 {
	w.T.Helper()
	// The lease is off: a scheduler that is stopped for seconds loses nothing.
	w.Scheduler().Pause()
	inParallel(w.T, perRound, func(i int) error {
		p := builders.Pod(app, fmt.Sprintf("%s-%d", app, i), func(t *corev1.PodTemplateSpec) {
			label := "example.com/size" // as many labels on both sides
			if sized {
				label = v1alpha1.ResourceLimitLabel
			}
			t.Labels[label] = fmt.Sprintf("size-%d", (round*perRound+i)%limits)
		})
		p.Namespace = w.Namespace
		return w.Client.Create(w.Ctx, p)
	})
	began := time.Now()
	w.Scheduler().Resume()
	// The audit log has when the last was bound. A watch would be dropped at this pace, and lists cost on both sides.
	waitBound(w, app)
	last := began
	for _, r := range w.Audit(func(r testenv.Request) bool {
		return r.Resource == "pods/binding" && strings.HasPrefix(r.Name, app+"-")
	}) {
		if r.At.After(last) {
			last = r.At
		}
	}
	return perRound / last.Sub(began).Seconds()
}

func waitBound(w *testenv.World, app string) {
	w.T.Helper()
	w.Within(testenv.SettleTimeout, "the pods are bound", func() (bool, string) {
		waiting, err := w.Kube.CoreV1().Pods(w.Namespace).List(w.Ctx, metav1.ListOptions{
			LabelSelector: "app=" + app, FieldSelector: "spec.nodeName=", ResourceVersion: "0",
		})
		require.NoError(w.T, err)
		return len(waiting.Items) == 0, fmt.Sprintf("%d wait", len(waiting.Items))
	})
}

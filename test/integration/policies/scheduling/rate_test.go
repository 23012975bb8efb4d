// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// Two schedulers get 200 pods a second each, for more capacity than there is. The test counts the nodes on which they bound
// pods for more than there is, and how many pods were bound in a second; docs/performance.md has the numbers.
func TestSchedulersAt200PodsASecond(t *testing.T) {
	const cpus, rate = 8, 200
	nodes, perScheduler := testenv.Length(25, 100), testenv.Length(150, 600)
	for _, c := range []struct {
		name, rival string
		mode        v1alpha1.BindMode
	}{
		{"two of Berth, optimistic", "rival", v1alpha1.BindOptimistic},
		{"two of Berth, pessimistic", "rival", v1alpha1.BindPessimistic},
		{"with kube-scheduler, optimistic", corev1.DefaultSchedulerName, v1alpha1.BindOptimistic},
		{"with kube-scheduler, pessimistic", corev1.DefaultSchedulerName, v1alpha1.BindPessimistic},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := testenv.New(t, cluster.Nodes("", nodes, func(n *cluster.NodeSpec) { n.CPU, n.Memory = fmt.Sprint(cpus), "64Gi" })...)
			start(w)
			if c.rival == corev1.DefaultSchedulerName {
				w.StartStock()
			} else {
				rival(w, c.rival)
			}
			w.Create(builders.SchedulingPolicy("all", bind(c.mode)))
			w.Create(builders.Pod("probe", "probe-ours", builders.CPU("1m")), builders.Pod("probe", "probe-theirs", builders.CPU("1m"),
				builders.SchedulerName(c.rival)))
			w.WaitBound("probe", 2) // both lead
			began := time.Now()
			var creating sync.WaitGroup
			for _, of := range []string{"berth-scheduler", c.rival} {
				creating.Go(func() { createAt(w, rate, perScheduler, of) })
			}
			full := func(pods []corev1.Pod) bool { return len(testenv.Where(pods, testenv.Bound)) >= nodes*cpus }
			w.Eventually("the nodes are full", func() (bool, string) { pods := w.Pods(); return full(pods), fmt.Sprint(len(pods), " pods") })
			took := time.Since(began)
			creating.Wait()
			over := overcommitted(w, cpus, w.Pods())
			t.Logf("%s: %d of %d nodes are overcommitted, %.0f pods a second", c.name, len(over), nodes, float64(nodes*cpus)/took.Seconds())
			if c.rival == "rival" && c.mode == v1alpha1.BindPessimistic {
				assert.Empty(t, over)
			}
		})
	}
}

// createAt creates pods for a scheduler at a rate a second.
func createAt(w *testenv.World, rate, pods int, scheduler string) {
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for i := range pods {
		<-tick.C
		p := builders.Pod(scheduler, fmt.Sprintf("%s-%d", scheduler, i), builders.CPU("1"), builders.SchedulerName(scheduler))
		p.Namespace = w.Namespace
		if err := w.Client.Create(w.Ctx, p); err != nil {
			w.T.Errorf("create pod %d: %v", i, err)
			return
		}
	}
}

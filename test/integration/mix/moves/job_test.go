// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// L1: a Job counts an evicted pod as failed, and seven of them end it. Whatever its mode, its size, its mix and the order in
// which its pods finish, Berth evicts none.
func TestPodsOfJobsAreNotEvicted(t *testing.T) {
	sizes := []int32{16, 30}
	if os.Getenv("BERTH_TEST_LONG") != "" {
		sizes = []int32{16, 100, 200}
	}
	w := testenv.New(t, testenv.Roomy()...)
	jobs := map[string]*batchv1.Job{}
	for _, mode := range []batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion} {
		for _, n := range sizes {
			app := fmt.Sprintf("job-%d-%d", len(jobs), n)
			jobs[app] = builders.Job(app, n, mode, builders.CPU("10m"))
			jobs[app].Spec.Completions = new(2 * n)
			w.Create(builders.CapacityMix(app, 70, 1), jobs[app])
		}
	}
	for app, job := range jobs {
		w.WaitReady(app, int(*job.Spec.Parallelism))
	}
	w.Controller(testenv.Impatient, func(c *controller.Configuration) { c.Mix.Rebalance.ClusterMaxConcurrent = 100 })
	random := rand.New(rand.NewPCG(1, 2))
	for _, percent := range []int32{0, 100} {
		for app := range jobs {
			w.ChangeMix(app, spotPercent(percent))
			w.WaitBlocked(app, "CountsAsFailure", "restartPolicy is not Always")
			finish(w, app, func() bool { return random.IntN(4) == 0 })
		}
	}
	for app, job := range jobs {
		w.Eventually("job "+app+" completes", func() (bool, string) {
			finish(w, app, func() bool { return true })
			j := testenv.Read(w, app, &batchv1.Job{})
			require.Zero(t, j.Status.Failed, app)
			return j.Status.CompletionTime != nil && j.Status.Succeeded == *job.Spec.Completions, fmt.Sprintf("%d of %d succeeded", j.Status.Succeeded, *job.Spec.Completions)
		})
	}
	assert.Empty(t, w.Evictions())
}

// finish has some of the running pods of an app succeed.
func finish(w *testenv.World, app string, chosen func() bool) {
	w.T.Helper()
	for _, p := range w.Live(app) {
		if p.Status.Phase == corev1.PodRunning && chosen() {
			require.NoError(w.T, w.SetPhase(p.Name, corev1.PodSucceeded))
		}
	}
}

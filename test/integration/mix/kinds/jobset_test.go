// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// jobKey identifies a job of a JobSet. The one of JobSet is a hash of its namespace and name.
const jobKey = "jobset.sigs.k8s.io/job-key"

// jobOf makes a job of a JobSet as its controller does, with so many pods.
func jobOf(w *testenv.World, js client.Object, job, pods, attempt int, template ...func(*corev1.PodTemplateSpec)) *batchv1.Job {
	w.T.Helper()
	name := fmt.Sprintf("%s-workers-%d", js.GetName(), job)
	index := strconv.Itoa(job)
	j := builders.Job(js.GetName(), int32(pods), batchv1.IndexedCompletion, append(template, labeled(
		"jobset.sigs.k8s.io/jobset-name", js.GetName(), "jobset.sigs.k8s.io/jobset-uid", string(js.GetUID()),
		"jobset.sigs.k8s.io/replicatedjob-name", "workers", "jobset.sigs.k8s.io/job-index", index,
		"jobset.sigs.k8s.io/job-global-index", index, jobKey, "key-of-"+name,
		"jobset.sigs.k8s.io/restart-attempt", strconv.Itoa(attempt),
	))...)
	j.Name, j.OwnerReferences = name, []metav1.OwnerReference{*controllerRef(w, js)}
	w.Create(j)
	return j
}

func TestTheJobsOfAJobSetRunWhole(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(50, 1)
	w.Create(builders.CapacityMix("train", 50, 1))
	js := custom(w, jobSet, "train", nil)
	record := w.Record("train")
	whole := func(n int) map[int]string {
		return requireUnits(w, byLabel(w.WaitReady("train", n*3), jobKey), 3, m)
	}
	var jobs []*batchv1.Job
	for n := range 8 {
		jobs = append(jobs, jobOf(w, js, n, 3, 0))
		whole(n + 1)
	}
	before := whole(8)

	// A pod that is lost is replaced within its unit.
	spot, _ := m.SlotOf(capacity.Spot, 1)
	lost := having(w.Live("train"), jobKey, before[spot])[0]
	w.Delete(&lost)
	w.WaitGone([]corev1.Pod{lost})
	require.Equal(t, before, whole(8))

	// The whole set restarts: each job is created again, with its name.
	old := w.Live("train")
	for _, j := range jobs {
		w.Delete(j, client.PropagationPolicy(metav1.DeletePropagationForeground))
	}
	for n := range jobs {
		w.WaitDeleted(jobs[n])
		jobOf(w, js, n, 3, 1)
	}
	w.WaitGone(old)
	whole(8)
	requireUnitsWhole(w, record, w.Types(), jobKey)
}

// The jobs that are done hold no slot: the mix counts those that run, and the next job takes the type that is missing.
func TestFinishedJobsOfAJobSetHoldNoSlot(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(50, 0)
	w.Create(builders.CapacityMix("train", 50, 0))
	js := custom(w, jobSet, "train", nil)
	record := w.Record("train")
	for n := range 2 {
		jobOf(w, js, n, 2, 0)
	}
	first := requireUnits(w, byLabel(w.WaitReady("train", 4), jobKey), 2, m)
	for n := 2; n < 4; n++ {
		jobOf(w, js, n, 2, 0, builders.SucceedsAfter(time.Second))
	}
	w.Eventually("two jobs are done", func() (bool, string) {
		done := testenv.Where(w.Pods(), func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
		return len(done) == 4, fmt.Sprint(len(done))
	})
	for n := 4; n < 6; n++ {
		jobOf(w, js, n, 2, 0)
	}
	now := requireUnits(w, byLabel(w.WaitReady("train", 8), jobKey), 2, m)
	for slot, unit := range first {
		require.Equal(t, unit, now[slot], "the unit with slot %d", slot)
	}
	requireUnitsWhole(w, record, w.Types(), jobKey)
}

// Jobs that borrowed are on the types of their slots once they have been deleted in the foreground and created again.
func TestAJobThatIsCreatedAgainFollowsItsSlot(t *testing.T) {
	w := testenv.New(t, room("spot", "spot", 100), room("on-demand", "on-demand", 100))
	m := split.New(50, 1)
	w.Create(builders.CapacityMix("train", 50, 1))
	js := custom(w, jobSet, "train", nil)
	record := w.Record("train")
	w.Cordon(true, "spot")
	var jobs []*batchv1.Job
	for n := range 4 {
		jobs = append(jobs, jobOf(w, js, n, 3, 0, builders.TerminatesFor(time.Second)))
	}
	w.WaitReady("train", 12)
	require.Equal(t, testenv.Split{OnDemand: 12}, w.Split("train"))
	w.Cordon(false, "spot")
	for n, j := range jobs {
		w.Delete(j, client.PropagationPolicy(metav1.DeletePropagationForeground))
		w.WaitDeleted(j)
		jobOf(w, js, n, 3, 0, builders.TerminatesFor(time.Second))
		w.WaitReady("train", 12)
	}
	requireUnits(w, byLabel(w.Live("train"), jobKey), 3, m)
	requireUnitsWhole(w, record, w.Types(), jobKey)
}

// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// The labels of JobSet.
const (
	jobKey        = "jobset.sigs.k8s.io/job-key"
	replicatedJob = "jobset.sigs.k8s.io/replicatedjob-name"
)

// jobsOf are jobs of a JobSet with so many pods each, which may fail a number of times.
func jobsOf(w *testenv.World, app, name string, jobs, pods, failures int, template ...func(*corev1.PodTemplateSpec)) map[string]any {
	w.T.Helper()
	j := builders.Job(app, int32(pods), batchv1.IndexedCompletion, template...)
	j.Spec.BackoffLimit = new(int32(failures))
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&j.Spec)
	require.NoError(w.T, err)
	return map[string]any{"name": name, "replicas": int64(jobs), "template": map[string]any{"spec": spec}}
}

// newJobSet makes a JobSet that is created again once if one of its jobs fails.
func newJobSet(w *testenv.World, name string, jobs ...any) {
	w.T.Helper()
	w.Operator(cluster.JobSet)
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"replicatedJobs": jobs, "failurePolicy": map[string]any{"maxRestarts": int64(1)},
	}}}
	o.SetGroupVersionKind(jobSet)
	o.SetName(name)
	w.Create(o)
}

// waitJobs waits until so many jobs have all their pods, Ready, and demands the exact split of whole jobs.
func waitJobs(w *testenv.World, jobs, pods int, m split.Mix) map[int]string {
	w.T.Helper()
	return requireUnits(w, byLabel(w.WaitReady("train", jobs*pods), jobKey), pods, m)
}

func TestTheJobsOfAJobSetRunWhole(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(50, 1)
	w.Create(builders.CapacityMix("train", 50, 1))
	record := w.Record("train")
	newJobSet(w, "train", jobsOf(w, "train", "workers", 8, 3, 1))
	before := waitJobs(w, 8, 3, m)

	// A pod that is lost is replaced within its unit, and counts as a failure of its job.
	spot, _ := m.SlotOf(capacity.Spot, 1)
	lost := having(w.Live("train"), jobKey, before[spot])[0]
	w.Delete(&lost)
	w.WaitGone([]corev1.Pod{lost})
	require.Equal(t, before, waitJobs(w, 8, 3, m))

	// With the next failure the job has failed, and the whole set restarts: each job is created again, with its name.
	old := w.Live("train")
	require.NoError(t, w.SetPhase(having(old, jobKey, before[spot])[0].Name, corev1.PodFailed))
	w.WaitGone(old)
	waitJobs(w, 8, 3, m)
	requireUnitsWhole(w, record, w.Types(), jobKey)
}

// The jobs that are done hold no slot: the mix counts those that run, and the next job takes the type that is missing.
func TestFinishedJobsOfAJobSetHoldNoSlot(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(50, 0)
	w.Create(builders.CapacityMix("train", 50, 0))
	record := w.Record("train")
	next := jobsOf(w, "train", "next", 2, 2, 0)
	next["dependsOn"] = []any{map[string]any{"name": "short", "status": "Complete"}}
	newJobSet(w, "train", jobsOf(w, "train", "long", 2, 2, 0), jobsOf(w, "train", "short", 2, 2, 0, builders.SucceedsAfter(time.Second)), next)
	w.Eventually("two jobs are done", func() (bool, string) {
		done := testenv.Where(w.Pods(), func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
		return len(done) == 4, fmt.Sprint(len(done))
	})
	slots := map[string]int{}
	for _, p := range having(w.Live("train"), replicatedJob, "long") {
		slots[p.Name] = slotOf(t, &p)
	}
	waitJobs(w, 4, 2, m)
	require.Len(t, slots, 4)
	for _, p := range having(w.Live("train"), replicatedJob, "long") {
		require.Equal(t, slots[p.Name], slotOf(t, &p), "the slot of pod %s", p.Name)
	}
	require.Len(t, having(w.Live("train"), replicatedJob, "next"), 4)
	requireUnitsWhole(w, record, w.Types(), jobKey)
}

// Jobs that borrowed are on the types of their slots once they have been deleted in the foreground: the operator creates them again.
func TestAJobThatIsCreatedAgainFollowsItsSlot(t *testing.T) {
	w := testenv.New(t, room("spot", "spot", 100), room("on-demand", "on-demand", 100))
	m := split.New(50, 1)
	w.Create(builders.CapacityMix("train", 50, 1))
	record := w.Record("train")
	w.Cordon(true, "spot")
	newJobSet(w, "train", jobsOf(w, "train", "workers", 4, 3, 0, builders.TerminatesFor(time.Second)))
	w.WaitReady("train", 12)
	require.Equal(t, testenv.Split{OnDemand: 12}, w.Split("train"))
	w.Cordon(false, "spot")
	for n := range 4 {
		name := fmt.Sprintf("train-workers-%d", n)
		pods := having(w.Live("train"), "batch.kubernetes.io/job-name", name)
		require.Len(t, pods, 3)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}
		w.Delete(job, client.PropagationPolicy(metav1.DeletePropagationForeground))
		w.WaitGone(pods)
		w.WaitReady("train", 12)
	}
	waitJobs(w, 4, 3, m)
	requireUnitsWhole(w, record, w.Types(), jobKey)
}

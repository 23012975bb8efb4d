// SPDX-License-Identifier: Apache-2.0

package workloads_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// index returns the slot of an Indexed Job's pod.
func index(t *testing.T) func(*corev1.Pod) int {
	return func(p *corev1.Pod) int {
		n, err := strconv.Atoi(p.Annotations[batchv1.JobCompletionIndexAnnotation])
		require.NoError(t, err)
		return n
	}
}

func TestIndexedJobSlotsFollowTheIndexAndKeepTheirType(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(60, 2)
	type loss struct {
		app   string
		lose  func(*corev1.Pod)
		index int
		lost  corev1.Pod
	}
	onDemand, _ := m.SlotOf(capacity.OnDemand, 1)
	spot, _ := m.SlotOf(capacity.Spot, 3)
	// A Job each, at once: its controller waits 10 s after a failure, and twice as long after the next.
	losses := []loss{
		{app: "on-demand-deleted", lose: remove(w), index: onDemand},
		{app: "spot-deleted", lose: remove(w), index: spot},
		{app: "on-demand-failed", lose: fail(w), index: onDemand},
		{app: "spot-failed", lose: fail(w), index: spot},
	}
	for i := range losses {
		l := &losses[i]
		w.Create(builders.CapacityMix(l.app, 60, 2), builders.Job(l.app, 10, batchv1.IndexedCompletion))
		w.WaitReady(l.app, 10)
		pods := w.RequireExact(l.app, m, 10)
		requireAssignments(w, pods, m, index(t))
		l.lost = *w.Slots(pods)[l.index]
		l.lose(&l.lost)
	}
	for _, l := range losses {
		w.Eventually("the lost index of "+l.app+" runs again", func() (bool, string) {
			live := w.Live(l.app)
			again := slices.ContainsFunc(live, func(p corev1.Pod) bool { return p.UID != l.lost.UID && index(t)(&p) == l.index })
			return again && w.SplitOf(live).Pending == 0, w.SplitOf(live).String()
		})
		requireAssignments(w, w.RequireExact(l.app, m, 10), m, index(t))
	}
}

// remove deletes a pod, and fail makes it a failed one.
func remove(w *testenv.World) func(*corev1.Pod) { return func(p *corev1.Pod) { w.Delete(p) } }

func fail(w *testenv.World) func(*corev1.Pod) {
	return func(p *corev1.Pod) { require.NoError(w.T, w.SetPhase(p.Name, corev1.PodFailed)) }
}

func TestAPlainJobIsExact(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("batch", 70, 1), builders.Job("batch", 20, batchv1.NonIndexedCompletion))
	w.RequireExact("batch", split.New(70, 1), 20)
}

func TestSucceededPodsFreeTheirSlotsForTheNextPodsOfTheJob(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(50, 1)
	const parallel, completions = 6, 24
	job := builders.Job("batch", parallel, batchv1.NonIndexedCompletion, builders.SucceedsAfter(time.Second))
	job.Spec.Completions = ptr.To[int32](completions)
	w.Create(builders.CapacityMix("batch", 50, 1))
	record := w.Record("batch")
	w.Create(job)
	testenv.WaitFor(w, "batch", "it is complete", func(j *batchv1.Job) bool { return j.Status.Succeeded == completions })
	record.RequireOnTheirTypes(m)
	uses := map[int]map[types.UID]bool{}
	full := 0
	nodes := w.Types()
	record.Replay(func(running map[types.UID]*corev1.Pod) {
		holders := map[int]string{}
		spot := 0
		for uid, p := range running {
			slot, _ := governing.ClaimedSlot(p)
			require.Less(t, slot, parallel, "the slot of pod %s: no more than %d run at once", p.Name, parallel)
			require.Empty(t, holders[slot], "the other holder of slot %d, beside %s", slot, p.Name)
			holders[slot] = p.Name
			if uses[slot] == nil {
				uses[slot] = map[types.UID]bool{}
			}
			uses[slot][uid] = true
			if nodes[p.Spec.NodeName] == capacity.Spot {
				spot++
			}
		}
		if len(running) == parallel {
			full++
			require.Equal(t, m.Spot(parallel), spot, "pods on spot while %d run", parallel)
		}
	})
	require.Positive(t, full, "moments at which %d pods ran", parallel)
	require.Len(t, uses, parallel, "slots that were used")
	for slot, pods := range uses {
		require.Greater(t, len(pods), 1, "pods that held slot %d, one after the other", slot)
	}
}

// As one group of nine the pods would run 4 on spot; each Job has 1 of 3 there.
func TestTheJobsOfOneCronJobAreGroupsOfTheirOwn(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(50, 1)
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "nightly"}}
	cron.Spec.Schedule, cron.Spec.Suspend = "0 3 * * *", new(true)
	cron.Spec.JobTemplate.Spec = builders.Job("nightly", 3, batchv1.NonIndexedCompletion).Spec
	w.Create(builders.CapacityMix("nightly", 50, 1), cron)
	owner := metav1.NewControllerRef(cron, batchv1.SchemeGroupVersion.WithKind("CronJob"))
	for i := range 3 { // as the CronJob controller does at the hour
		job := builders.Job("nightly", 3, batchv1.NonIndexedCompletion)
		job.Name, job.OwnerReferences = name("nightly", i), []metav1.OwnerReference{*owner}
		w.Create(job)
	}
	groups := map[string][]corev1.Pod{}
	for _, p := range w.WaitBound("nightly", 9) {
		groups[metav1.GetControllerOf(&p).Name] = append(groups[metav1.GetControllerOf(&p).Name], p)
	}
	require.Len(t, groups, 3)
	for _, pods := range groups {
		require.Len(t, pods, 3)
		w.RequireExactPods(pods, m)
	}
}

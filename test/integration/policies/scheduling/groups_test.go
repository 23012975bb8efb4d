// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// together has so many pods of a controller bound together.
func together(size, seconds int32) func(*v1alpha1.SchedulingPolicySpec) {
	return func(s *v1alpha1.SchedulingPolicySpec) {
		s.Bind = &v1alpha1.BindRules{Mode: v1alpha1.BindTwoPhase, GroupSize: &size, ReservationSeconds: &seconds}
	}
}

func waitComplete(w *testenv.World, job string) {
	w.T.Helper()
	w.Eventually("the Job is complete", func() (bool, string) {
		j := testenv.Read(w, job, &batchv1.Job{})
		return j.Status.CompletionTime != nil, fmt.Sprintf("%+v", j.Status)
	})
}

// A Job runs to its end whatever its pods end with: one that replaces another does not wait for those that have succeeded, nor for
// pods that the Job does not create any more.
func TestAJobWhosePodsAreBoundTogetherCompletes(t *testing.T) {
	t.Run("of four pods one fails", func(t *testing.T) {
		w := testenv.New(t, six()...)
		start(w)
		w.Create(builders.SchedulingPolicy("all", together(4, 600)), builders.Job("train", 4, batchv1.NonIndexedCompletion))
		pods := w.WaitBound("train", 4)
		for i, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodSucceeded, corev1.PodSucceeded, corev1.PodFailed} {
			require.NoError(t, w.SetPhase(pods[i].Name, phase))
		}
		var last []corev1.Pod
		w.Eventually("the replacement is bound", func() (bool, string) {
			last = testenv.Where(w.Live("train"), testenv.Bound)
			return len(last) == 1, fmt.Sprint(len(last))
		})
		require.NoError(t, w.SetPhase(last[0].Name, corev1.PodSucceeded))
		waitComplete(w, "train")
	})
	t.Run("of six pods four run at once", func(t *testing.T) {
		w := testenv.New(t, six()...)
		start(w)
		job := builders.Job("train", 6, batchv1.IndexedCompletion, builders.SucceedsAfter(500*time.Millisecond))
		job.Spec.Parallelism = new(int32(4))
		w.Create(builders.SchedulingPolicy("all", together(4, 600)), job)
		waitComplete(w, "train")
	})
}

// A ReplicaSet of a rollout has as many pods as the rollout has created: it does not wait for a group that is larger.
func TestARolloutOfAGroupCompletes(t *testing.T) {
	w := testenv.New(t, six()...)
	start(w)
	web := builders.Deployment("web", 10)
	w.Create(builders.SchedulingPolicy("all", together(10, 600)), web)
	w.WaitReady("web", 10)
	testenv.Patch(w, web, func(d *appsv1.Deployment) { d.Spec.Template.Annotations = map[string]string{"revision": "2"} })
	w.Eventually("the rollout is complete", func() (bool, string) {
		s := testenv.Read(w, "web", &appsv1.Deployment{}).Status
		return s.UpdatedReplicas == 10 && s.Replicas == 10 && s.AvailableReplicas == 10, fmt.Sprintf("%+v", s)
	})
}

// A group that waits for pods that do not come names itself, its size and how many are here.
func TestAGroupThatIsNotCompleteIsReported(t *testing.T) {
	w := testenv.New(t, six()...)
	start(w)
	w.Create(builders.Deployment("other", 2, builders.CPU("3")))
	w.WaitBound("other", 2)
	w.Create(builders.SchedulingPolicy("all", together(5, 1)), builders.StatefulSet("web", 5, appsv1.ParallelPodManagement, builders.CPU("3")))
	const want = "the pod's group was not complete in time: group web: "
	w.Eventually("the condition of a pod names the group", func() (bool, string) {
		for _, p := range w.Live("web") {
			if why := testenv.Unschedulable(&p); strings.Contains(why, want) && strings.Contains(why, " of 5 members are here, groupSize is 5") {
				return true, ""
			}
		}
		return false, ""
	})
}

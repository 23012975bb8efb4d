// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
)

// toolPod is a pod of the Job "b", of a minute, whose container is in a state.
func toolPod(minute int, phase corev1.PodPhase, state corev1.ContainerState) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{batchv1.JobNameLabel: "b"}, CreationTimestamp: metav1.NewTime(time.Unix(int64(minute)*60, 0)),
	}}
	p.Status.Phase, p.Status.ContainerStatuses = phase, []corev1.ContainerStatus{{State: state}}
	return p
}

func ended(code int32, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error", Message: message}}
}

const (
	running   = v1alpha1.DatabaseBackupRunning
	completed = v1alpha1.DatabaseBackupCompleted
	failed    = v1alpha1.DatabaseBackupFailed
)

func TestADumpHasAState(t *testing.T) {
	unschedulable := toolPod(1, corev1.PodPending, corev1.ContainerState{})
	unschedulable.Status.ContainerStatuses = nil
	unschedulable.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no node has room"}}
	unseen := toolPod(1, corev1.PodPending, corev1.ContainerState{})
	unseen.Status.ContainerStatuses, unseen.Name, unseen.Spec.SchedulerName = nil, "b-x", "none"
	others := toolPod(9, corev1.PodSucceeded, ended(0, "99"))
	others.Labels[batchv1.JobNameLabel] = "other"
	waits := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}
	for name, c := range map[string]struct {
		condition     batchv1.JobConditionType
		status        corev1.ConditionStatus
		pods          []corev1.Pod
		state         v1alpha1.DatabaseBackupPhase
		message, size string
	}{
		"just made":         {"", "", nil, running, "", ""},
		"finds no node":     {"", "", []corev1.Pod{unschedulable}, running, "no node has room", ""},
		"has no scheduler":  {"", "", []corev1.Pod{unseen}, running, `the scheduler "none" of the pod b-x has not tried to place it: check that it runs`, ""},
		"finds no image":    {"", "", []corev1.Pod{toolPod(1, corev1.PodPending, waits)}, running, "ImagePullBackOff: no such image", ""},
		"is tried again":    {"", "", []corev1.Pod{toolPod(1, corev1.PodFailed, ended(1, "refused\n"))}, running, "refused", ""},
		"done":              {batchv1.JobComplete, "True", []corev1.Pod{toolPod(1, corev1.PodSucceeded, ended(0, "4096000\n")), toolPod(2, corev1.PodFailed, ended(1, "x"))}, completed, "", "4000Ki"},
		"done, pod is gone": {batchv1.JobComplete, "True", []corev1.Pod{others}, completed, "", ""},
		"done and verified": {batchv1.JobComplete, "True", []corev1.Pod{toolPod(1, corev1.PodSucceeded, ended(0, "100\n12\n"))}, completed, "", "100"},
		"done, of no size":  {batchv1.JobComplete, "True", []corev1.Pod{toolPod(1, corev1.PodSucceeded, ended(0, "all good"))}, completed, "", ""},
		"not failed":        {batchv1.JobFailed, "False", nil, running, "", ""},
		"failed":            {batchv1.JobFailed, "True", []corev1.Pod{toolPod(2, corev1.PodFailed, ended(1, "")), toolPod(1, corev1.PodFailed, ended(1, "earlier"))}, failed, "too often: Error", ""},
		"failed, no pod":    {batchv1.JobFailed, "True", []corev1.Pod{others}, failed, "too often", ""},
	} {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
			if c.condition != "" {
				job.Status.Conditions = []batchv1.JobCondition{{Type: c.condition, Status: c.status, Message: "too often"}}
			}
			want := Outcome{Phase: c.state, Message: c.message, Size: c.size}
			if name == "done and verified" {
				want.Tables = new(int64(12))
			}
			assert.Equal(t, want, OutcomeOfJob(job, c.pods))
		})
	}
}

func TestASnapshotHasAState(t *testing.T) {
	for name, c := range map[string]struct {
		status map[string]any
		want   Outcome
	}{
		"just made":       {nil, Outcome{Phase: running}},
		"is made":         {map[string]any{"readyToUse": false}, Outcome{Phase: running}},
		"ready":           {map[string]any{"readyToUse": true, "restoreSize": "10Gi"}, Outcome{Phase: completed, Size: "10Gi"}},
		"failed":          {map[string]any{"readyToUse": false, "error": map[string]any{"message": "no room"}}, Outcome{Phase: running, Message: "no room"}},
		"failed at first": {map[string]any{"readyToUse": true, "error": map[string]any{"message": "no room"}}, Outcome{Phase: completed}},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: map[string]any{}}
			u.SetName("b")
			if c.status != nil {
				u.Object["status"] = c.status
			}
			assert.Equal(t, c.want, OutcomeOfSnapshot(u))
		})
	}
}

// A size is short, a quantity, and never less than what it is of.
func TestSizesAreRoundedUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(0, 1<<60).Draw(t, "bytes")
		short := sizeText(n)
		require.LessOrEqual(t, len(short), 6)
		q, err := resource.ParseQuantity(short)
		require.NoError(t, err)
		require.GreaterOrEqual(t, uint64(q.Value()), n)
		require.LessOrEqual(t, q.Value()-int64(n), int64(n)/8+1, "a digit or two are enough")
	})
}

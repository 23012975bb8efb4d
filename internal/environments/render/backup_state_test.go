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

func TestWhereADumpStands(t *testing.T) {
	unschedulable := toolPod(1, corev1.PodPending, corev1.ContainerState{})
	unschedulable.Status.ContainerStatuses = nil
	unschedulable.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no node has room"}}
	others := toolPod(9, corev1.PodSucceeded, ended(0, "99"))
	others.Labels[batchv1.JobNameLabel] = "other"
	waits := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}
	for name, c := range map[string]struct {
		condition     batchv1.JobConditionType
		status        corev1.ConditionStatus
		pods          []corev1.Pod
		state         BackupState
		message, size string
	}{
		"just made":         {"", "", nil, BackupRunning, "", ""},
		"finds no node":     {"", "", []corev1.Pod{unschedulable}, BackupRunning, "no node has room", ""},
		"finds no image":    {"", "", []corev1.Pod{toolPod(1, corev1.PodPending, waits)}, BackupRunning, "ImagePullBackOff: no such image", ""},
		"is tried again":    {"", "", []corev1.Pod{toolPod(1, corev1.PodFailed, ended(1, "refused\n"))}, BackupRunning, "refused", ""},
		"done":              {batchv1.JobComplete, "True", []corev1.Pod{toolPod(1, corev1.PodSucceeded, ended(0, "4096000\n")), toolPod(2, corev1.PodFailed, ended(1, "x"))}, BackupReady, "", "4000Ki"},
		"done, pod is gone": {batchv1.JobComplete, "True", []corev1.Pod{others}, BackupReady, "", ""},
		"done, of no size":  {batchv1.JobComplete, "True", []corev1.Pod{toolPod(1, corev1.PodSucceeded, ended(0, "all good"))}, BackupReady, "", ""},
		"not failed":        {batchv1.JobFailed, "False", nil, BackupRunning, "", ""},
		"failed":            {batchv1.JobFailed, "True", []corev1.Pod{toolPod(2, corev1.PodFailed, ended(1, "")), toolPod(1, corev1.PodFailed, ended(1, "earlier"))}, BackupFailed, "too often: Error", ""},
		"failed, no pod":    {batchv1.JobFailed, "True", []corev1.Pod{others}, BackupFailed, "too often", ""},
	} {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
			if c.condition != "" {
				job.Status.Conditions = []batchv1.JobCondition{{Type: c.condition, Status: c.status, Message: "too often"}}
			}
			assert.Equal(t, Backup{Name: "b", Method: BackupDump, State: c.state, Message: c.message, Size: c.size}, BackupOfJob(job, c.pods))
		})
	}
}

func TestWhereASnapshotStands(t *testing.T) {
	for name, c := range map[string]struct {
		status map[string]any
		want   Backup
	}{
		"just made":       {nil, Backup{State: BackupRunning}},
		"is made":         {map[string]any{"readyToUse": false}, Backup{State: BackupRunning}},
		"ready":           {map[string]any{"readyToUse": true, "restoreSize": "10Gi"}, Backup{State: BackupReady, Size: "10Gi"}},
		"failed":          {map[string]any{"readyToUse": false, "error": map[string]any{"message": "no room"}}, Backup{State: BackupFailed, Message: "no room"}},
		"failed at first": {map[string]any{"readyToUse": true, "error": map[string]any{"message": "no room"}}, Backup{State: BackupReady}},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: map[string]any{}}
			u.SetName("b")
			if c.status != nil {
				u.Object["status"] = c.status
			}
			c.want.Name, c.want.Method = "b", BackupSnapshot
			assert.Equal(t, c.want, BackupOfSnapshot(u))
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

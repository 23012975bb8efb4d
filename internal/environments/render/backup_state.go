// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
)

// Outcome is the state of the Job or VolumeSnapshot of a backup or a restore.
type Outcome struct {
	// Phase is Running, Completed or Failed.
	Phase v1alpha1.DatabaseBackupPhase
	// Message is why it has failed, or what it waits for.
	Message string
	// Size is that of the dump, or of the volume that the snapshot needs; "" if it is not known.
	Size string
	// Tables is the number of tables in the scratch database, nil if the dump was not verified.
	Tables *int64
}

// OutcomeOfJob is the outcome of a Job. Its pods add details, if there are any left.
func OutcomeOfJob(job *batchv1.Job, pods []corev1.Pod) Outcome {
	o := Outcome{Phase: v1alpha1.DatabaseBackupRunning}
	pod := newestPod(job, pods)
	why := ""
	for _, c := range job.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			o.Phase = v1alpha1.DatabaseBackupCompleted
		case c.Type == batchv1.JobFailed:
			o.Phase, why = v1alpha1.DatabaseBackupFailed, c.Message
		}
	}
	switch {
	case o.Phase == v1alpha1.DatabaseBackupCompleted:
		o.Size, o.Tables = resultOfDump(pod)
	case pod == nil:
		o.Message = why
	default:
		o.Message = strings.Trim(why+": "+podSays(pod), ": ")
	}
	return o
}

// newestPod is the last pod of a Job, one that succeeded before others; nil if there is none.
func newestPod(job *batchv1.Job, pods []corev1.Pod) (newest *corev1.Pod) {
	newer := func(a, b *corev1.Pod) bool {
		if done := a.Status.Phase == corev1.PodSucceeded; done != (b.Status.Phase == corev1.PodSucceeded) {
			return done
		}
		return a.CreationTimestamp.After(b.CreationTimestamp.Time)
	}
	for i := range pods {
		if p := &pods[i]; p.Labels[batchv1.JobNameLabel] == job.Name && (newest == nil || newer(p, newest)) {
			newest = p
		}
	}
	return newest
}

// podSays is why a pod has failed, or what it waits for.
func podSays(pod *corev1.Pod) string {
	for i := range pod.Status.ContainerStatuses {
		switch s := &pod.Status.ContainerStatuses[i].State; {
		case s.Terminated != nil && s.Terminated.ExitCode != 0:
			return cmp.Or(strings.TrimSpace(s.Terminated.Message), s.Terminated.Reason, fmt.Sprintf("exit code %d", s.Terminated.ExitCode))
		case s.Waiting != nil:
			return strings.Trim(s.Waiting.Reason+": "+s.Waiting.Message, ": ")
		}
	}
	tried := pod.Spec.NodeName != ""
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return cmp.Or(c.Message, c.Reason)
		}
		tried = tried || c.Type == corev1.PodScheduled
	}
	if !tried && pod.Status.Phase == corev1.PodPending {
		return fmt.Sprintf("the scheduler %q of the pod %s has not tried to place it: check that it runs", pod.Spec.SchedulerName, pod.Name)
	}
	return pod.Status.Message
}

// resultOfDump returns the size of a dump and the number of tables in the scratch database, which a pod has written at its end.
func resultOfDump(pod *corev1.Pod) (size string, tables *int64) {
	if pod == nil {
		return "", nil
	}
	for i := range pod.Status.ContainerStatuses {
		t := pod.Status.ContainerStatuses[i].State.Terminated
		if t == nil {
			continue
		}
		words := strings.Fields(t.Message)
		if len(words) > 0 {
			if n, err := strconv.ParseUint(words[0], 10, 63); err == nil {
				size = sizeText(n)
			}
		}
		if len(words) > 1 {
			if n, err := strconv.ParseInt(words[1], 10, 64); err == nil {
				tables = &n
			}
		}
	}
	return size, tables
}

// sizeText is a number of bytes as a quantity of no more than four digits, rounded up: 4096000 is 4000Ki.
func sizeText(n uint64) string {
	units := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi"}
	i := 0
	for ; n >= 10_000 && i < len(units)-1; i++ {
		n = (n + 1023) / 1024
	}
	return strconv.FormatUint(n, 10) + units[i]
}

// maxSize is the length of the longest size in a status.
const maxSize = 32

// OutcomeOfSnapshot is the outcome of a VolumeSnapshot. One with an error may be ready later: its controller tries again.
func OutcomeOfSnapshot(u *unstructured.Unstructured) Outcome {
	o := Outcome{Phase: v1alpha1.DatabaseBackupRunning}
	size, _, _ := unstructured.NestedString(u.Object, "status", "restoreSize")
	if _, err := budget.ParseQuantity(size); err == nil && len(size) <= maxSize {
		o.Size = size
	}
	if ready, _, _ := unstructured.NestedBool(u.Object, "status", "readyToUse"); ready {
		o.Phase = v1alpha1.DatabaseBackupCompleted
		return o
	}
	o.Message, _, _ = unstructured.NestedString(u.Object, "status", "error", "message")
	return o
}

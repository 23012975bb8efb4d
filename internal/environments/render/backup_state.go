// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// BackupMethod is how a database is backed up.
type BackupMethod string

// Methods.
const (
	// BackupAuto is a snapshot where the cluster can make one, else a dump.
	BackupAuto BackupMethod = "auto"
	// BackupSnapshot is a VolumeSnapshot of the claim with the data.
	BackupSnapshot BackupMethod = "snapshot"
	// BackupDump is what pg_dump writes.
	BackupDump BackupMethod = "dump"
)

// BackupState is where a backup stands.
type BackupState string

// States.
const (
	// BackupRunning is being made.
	BackupRunning BackupState = "Running"
	// BackupReady can be restored.
	BackupReady BackupState = "Ready"
	// BackupFailed cannot. A snapshot that is Failed may be Ready later: who makes it tries again.
	BackupFailed BackupState = "Failed"
)

// Backup is a backup of a database.
type Backup struct {
	Name   string       `json:"name"`
	Method BackupMethod `json:"method"`
	State  BackupState  `json:"state"`
	// Message says why it has failed, or what it waits for.
	Message string      `json:"message,omitempty"`
	Created metav1.Time `json:"created"`
	// Size is that of the dump, or of the volume that the snapshot needs; "" if it is not known.
	Size string `json:"size,omitempty"`
}

// BackupOfJob is the backup that a Job makes, or how a restore stands. Its pods say more, if there are any left.
func BackupOfJob(job *batchv1.Job, pods []corev1.Pod) Backup {
	b := Backup{Name: job.Name, Method: BackupDump, State: BackupRunning, Created: job.CreationTimestamp}
	pod := newestPod(job, pods)
	why := ""
	for _, c := range job.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			b.State = BackupReady
		case c.Type == batchv1.JobFailed:
			b.State, why = BackupFailed, c.Message
		}
	}
	switch {
	case b.State == BackupReady:
		b.Size = dumpSize(pod)
	case pod == nil:
		b.Message = why
	default:
		b.Message = strings.Trim(why+": "+podSays(pod), ": ")
	}
	return b
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
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return pod.Status.Message
}

// dumpSize is the size that a pod has said at its end.
func dumpSize(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	for i := range pod.Status.ContainerStatuses {
		if t := pod.Status.ContainerStatuses[i].State.Terminated; t != nil {
			if n, err := strconv.ParseUint(strings.TrimSpace(t.Message), 10, 63); err == nil {
				return sizeText(n)
			}
		}
	}
	return ""
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

// BackupOfSnapshot is the backup that a VolumeSnapshot is.
func BackupOfSnapshot(u *unstructured.Unstructured) Backup {
	b := Backup{Name: u.GetName(), Method: BackupSnapshot, State: BackupRunning, Created: u.GetCreationTimestamp()}
	b.Size, _, _ = unstructured.NestedString(u.Object, "status", "restoreSize")
	ready, _, _ := unstructured.NestedBool(u.Object, "status", "readyToUse")
	failed, is, _ := unstructured.NestedMap(u.Object, "status", "error")
	switch {
	case ready:
		b.State = BackupReady
	case is && failed != nil:
		b.State = BackupFailed
		b.Message, _, _ = unstructured.NestedString(failed, "message")
	}
	return b
}

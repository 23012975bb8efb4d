// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/limits/defaulting"
	"berth.dev/berth/internal/limits/registry"
)

// Outcomes of an admission, as the metric names them.
const (
	// outcomeSized: the pod's limit was applied.
	outcomeSized = "sized"
	// outcomeMissing: the pod names a limit that does not exist.
	outcomeMissing = "missing"
	// outcomeNone: the pod has no limit.
	outcomeNone = "none"
	// outcomeSkipped: the pod was not evaluated.
	outcomeSkipped = "skipped"
	// outcomeError: the pod could not be read.
	outcomeError = "error"
)

// What clients are shown. The API server cuts off after 4 KiB in all.
const (
	maxWarnings      = 8
	maxWarningLength = 256
)

// mirrors reports whether a kubelet runs a pod already.
func mirrors(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror
}

// name gives a pod a scheduler that names none.
func name(pod *corev1.Pod, schedulerName string) {
	if own := pod.Spec.SchedulerName; schedulerName != "" && pod.Spec.NodeName == "" && (own == "" || own == corev1.DefaultSchedulerName) {
		pod.Spec.SchedulerName = schedulerName
	}
}

// size applies the limit of a pod.
func size(pod *corev1.Pod, resolution registry.Resolution) (outcome string, warnings []string) {
	switch {
	case resolution.Missing != "":
		return outcomeMissing, []string{fmt.Sprintf("ResourceLimit %q does not exist: the pod waits until it does", resolution.Missing)}
	case resolution.Limit == nil:
		return outcomeNone, nil
	}
	warnings = defaulting.Apply(pod, resolution.Limit.Limit)
	if excess := registry.Describe(resolution.Limit.Exceeded(pod)); excess != "" {
		warnings = append(warnings, fmt.Sprintf("ResourceLimit %q: %s: berth-scheduler will not place the pod", resolution.Limit.Key,
			excess))
	}
	return outcomeSized, warnings
}

// bounded cuts warnings to the number and length that clients show. The last one counts the others.
func bounded(warnings []string) []string {
	more := 0
	if len(warnings) > maxWarnings {
		more = len(warnings) - maxWarnings + 1
		warnings = warnings[:maxWarnings-1]
	}
	out := make([]string, 0, len(warnings)+1)
	for _, w := range warnings {
		w = "berth: " + strings.ReplaceAll(w, "\n", " ")
		if len(w) > maxWarningLength {
			w = strings.ToValidUTF8(w[:maxWarningLength-3], "") + "..."
		}
		out = append(out, w)
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("berth: %d more", more))
	}
	return out
}

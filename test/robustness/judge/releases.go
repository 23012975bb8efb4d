// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/test/robustness/history"
)

// Releases returns what came of a workload whose replicas are released before they are evicted, found by the label app: the fewest Ready
// and the most live pods at any instant since so many were Ready as it requests, and how many released ones are left at the end.
func Releases(h *history.History, app string, replicas int) (fewest, most, left int) {
	there, began := map[string]*corev1.Pod{}, false
	fewest = math.MaxInt
	for i := range h.Changes {
		c := &h.Changes[i]
		switch {
		case c.Pod != nil && c.Pod.Labels["app"] == app && live(c.Pod):
			there[c.Key] = c.Pod
		case there[c.Key] != nil:
			delete(there, c.Key)
		default:
			continue
		}
		n := 0
		for _, p := range there {
			if ready(p) {
				n++
			}
		}
		if began = began || n == replicas; began {
			fewest, most = min(fewest, n), max(most, len(there))
		}
	}
	for _, p := range there {
		if _, is := pods.ReleasedFrom(p); is {
			left++
		}
	}
	return fewest, most, left
}

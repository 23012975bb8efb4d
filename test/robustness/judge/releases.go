// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"

	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/test/robustness/history"
)

// Releases returns what came of a workload whose replicas are released before they are evicted, found by the label app: the fewest Ready
// and the most live pods at any instant since so many were Ready as it requests, and how many released ones are left at the end.
func Releases(h *history.History, app string, replicas int) (fewest, most, left int) {
	began := false
	fewest = math.MaxInt
	replay(h, []probe{{to: len(h.Changes), observe: func(w *world) {
		nReady, n := 0, 0
		left = 0
		for _, p := range w.pods {
			if p.Labels["app"] != app || !live(p) {
				continue
			}
			n++
			if ready(p) {
				nReady++
			}
			if _, is := pods.ReleasedFrom(p); is {
				left++
			}
		}
		if began = began || nReady == replicas; began {
			fewest, most = min(fewest, nReady), max(most, n)
		}
	}}})
	return fewest, most, left
}

// SPDX-License-Identifier: Apache-2.0

package gatefailopen

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/clusterstate"
)

// waiting is since when each pod is known to wait, by the clock of this process.
type waiting map[types.UID]time.Time

// due takes in the pods that have the gate now, and returns those, in the same
// order, that have had it for as long as that.
func (w waiting) due(pods []*clusterstate.Pod, now time.Time, long time.Duration) []*clusterstate.Pod {
	there := make(map[types.UID]bool, len(pods))
	var due []*clusterstate.Pod
	for _, p := range pods {
		there[p.UID] = true
		since, known := w[p.UID]
		if !known {
			w[p.UID], since = now, now
		}
		if now.Sub(since) >= long {
			due = append(due, p)
		}
	}
	for uid := range w {
		if !there[uid] {
			delete(w, uid)
		}
	}
	return due
}

// within returns the pods that may be ungated: those that live and that no other gate holds, in the namespaces
// that are reconciled; none named are all.
func within(pods []*clusterstate.Pod, namespaces []string) []*clusterstate.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p *clusterstate.Pod) bool {
		return !p.Live() || p.OtherGates || len(namespaces) > 0 && !slices.Contains(namespaces, p.Namespace)
	})
}

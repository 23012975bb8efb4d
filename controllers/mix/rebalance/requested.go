// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/clusterstate"
	answers "berth.dev/berth/internal/mix/evictions"
)

// Requests are the requests of others to evict pods, for which Berth is the active responder.
type Requests interface {
	// Of are the pods of a namespace that are named, with when each request was first seen, nil for none. It must not be changed.
	Of(namespace string) map[types.UID]time.Time
	// Confirm returns an error unless the API server has a request for a pod at this moment.
	Confirm(ctx context.Context, pod *corev1.Pod) error
	// Decided reports what becomes of a pod that is named.
	Decided(namespace string, pod types.UID, f answers.Fate)
}

// requested are the pods of a namespace whose eviction waits for Berth.
func (c *Controller) requested(namespace string) map[types.UID]time.Time {
	if c.Requests == nil {
		return nil
	}
	return c.Requests.Of(namespace)
}

// answer reports what becomes of the replicas whose eviction is requested.
func (c *Controller) answer(w *evaluation) {
	if len(w.Requested) == 0 || !hasAny(&w.Group, w.Requested) {
		return
	}
	in := c.input(w)
	for uid := range w.Requested {
		if fate, known := in.FateOf(uid); known {
			c.Requests.Decided(w.Group.Key.Namespace, uid, fate)
		}
	}
}

// hasAny reports whether a group has one of some pods.
func hasAny(g *clusterstate.Group, pods map[types.UID]time.Time) bool {
	if len(pods) == 0 {
		return false
	}
	for i := range g.Assignments {
		for _, p := range g.Assignments[i].Members() {
			if !pods[p.UID].IsZero() {
				return true
			}
		}
	}
	return false
}

// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/plugins/capacitymix/wakeup"
)

// unsynced has the pods that were enqueued before the ledger had all nodes, pods
// and mixes. Their scheduling cycles would have to wait for it.
type unsynced struct {
	mu       sync.Mutex
	pods     []*corev1.Pod
	released bool
}

// HasSynced reports whether the ledger has the first list of everything that it
// is built from, and the watch of mixes has begun. It does not block.
func (s *State) HasSynced() bool { return s.gate.HasSynced() }

// WaitForSync blocks until HasSynced, or returns an error that states what is missing.
func (s *State) WaitForSync(ctx context.Context) error {
	return s.gate.Wait(ctx, "the ledger of plugin CapacityMix has not seen all nodes, pods and CapacityMixes")
}

// ActivateAfterSync has a pod activated once the ledger has synced. It returns
// false if it has, so that the pod can be scheduled now. It does not block.
func (s *State) ActivateAfterSync(pod *corev1.Pod) bool {
	if s.HasSynced() {
		return false
	}
	s.unsynced.mu.Lock()
	defer s.unsynced.mu.Unlock()
	if s.unsynced.released {
		return false
	}
	s.unsynced.pods = append(s.unsynced.pods, pod)
	return true
}

// releaseUnsynced activates the pods that were enqueued before the ledger had synced.
func (s *State) releaseUnsynced(ctx context.Context) {
	for {
		err := s.WaitForSync(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			break
		}
		s.logger.Error(err, "No pod is scheduled yet")
	}
	s.unsynced.mu.Lock()
	pods := s.unsynced.pods
	s.unsynced.pods, s.unsynced.released = nil, true
	s.unsynced.mu.Unlock()
	s.Activate(s.logger, wakeup.Pods(pods...))
}

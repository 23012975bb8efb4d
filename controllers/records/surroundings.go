// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// surroundings are the API groups that the cluster serves: they change what is
// rendered. No watch reports them, so they are polled.
type surroundings struct {
	groups func() (*metav1.APIGroupList, error)
	// appeared is called once Knative is served, until it returns true, and changed whenever something is another.
	appeared func() bool
	changed  func()
	every    time.Duration

	mu    sync.RWMutex
	known map[string]bool
	watch bool
}

func (s *surroundings) served(group string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known[group]
}

// watched reports whether Knative's Services are in the cache.
func (s *surroundings) watched() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.watch
}

// settled reports whether it is known what there is, and everything that is served
// can be listed. A record that was looked at before would be rendered without it.
func (s *surroundings) settled() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known != nil && (s.watch || !s.known[knativeGroup])
}

// Start implements manager.Runnable.
func (s *surroundings) Start(ctx context.Context) error {
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	for {
		s.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// look asks once. What cannot be queried stays as it was.
func (s *surroundings) look(ctx context.Context) {
	if s.lookForGroups(ctx) {
		s.changed()
	}
}

// lookForGroups reports whether Knative has come or gone.
func (s *surroundings) lookForGroups(ctx context.Context) (changed bool) {
	list, err := s.groups()
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot ask which API groups are served")
		return false
	}
	now := map[string]bool{}
	for i := range list.Groups {
		now[list.Groups[i].Name] = true
	}
	s.mu.Lock()
	changed = s.known[knativeGroup] != now[knativeGroup]
	s.known = now
	watch := s.watch
	s.mu.Unlock()
	if now[knativeGroup] && !watch && s.appeared() {
		s.mu.Lock()
		s.watch = true
		s.mu.Unlock()
		changed = true
	}
	return changed
}

// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// capabilities are the API groups that the cluster serves, which change what is rendered. No watch reports them, so they are
// polled.
type capabilities struct {
	groups func() (*metav1.APIGroupList, error)
	// appeared is called once Knative is served, until it returns true; changed is called whenever Knative comes or goes.
	appeared func() bool
	changed  func()

	mu    sync.RWMutex
	known map[string]bool
	watch bool
}

func (s *capabilities) served(group string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known[group]
}

// watched reports whether Knative's Services are in the cache.
func (s *capabilities) watched() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.watch
}

// settled reports whether the groups are known and everything that is served can be listed. A record that is reconciled before
// would be rendered without Knative.
func (s *capabilities) settled() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known != nil && (s.watch || !s.known[knativeGroup])
}

// Start implements manager.Runnable.
func (s *capabilities) Start(ctx context.Context) error {
	ticker := time.NewTicker(discoveryInterval)
	defer ticker.Stop()
	for {
		if s.discover(ctx) {
			s.changed()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// discover reads the groups once, and reports whether Knative has come or gone. If they cannot be read, they stay as they were.
func (s *capabilities) discover(ctx context.Context) (changed bool) {
	list, err := s.groups()
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot discover the served API groups")
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

// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// capabilities are the API groups that the cluster serves, which change what is rendered. No watch reports them, so they are
// polled.
type capabilities struct {
	groups func() (*metav1.APIGroupList, error)
	// appeared is called once Knative is served, until it returns true; changed is called whenever Knative comes or goes.
	appeared func() bool
	changed  func()

	// known is nil until the groups were read once.
	known atomic.Pointer[sets.Set[string]]
	// watched means that Knative's Services are in the cache.
	watched atomic.Bool
}

func (s *capabilities) served(group string) bool {
	known := s.known.Load()
	return known != nil && known.Has(group)
}

// complete reports whether the groups are known and everything that is served can be listed. A record that is reconciled before
// would be rendered without Knative.
func (s *capabilities) complete() bool {
	return s.known.Load() != nil && (s.watched.Load() || !s.served(knativeGroup))
}

// Start implements manager.Runnable.
func (s *capabilities) Start(ctx context.Context) error {
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		if s.discover(ctx) {
			s.changed()
		}
	}, discoveryInterval)
	return nil
}

// discover reads the groups once, and reports whether Knative has come or gone. If they cannot be read, they stay as they were.
func (s *capabilities) discover(ctx context.Context) (changed bool) {
	list, err := s.groups()
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot discover the served API groups")
		return false
	}
	now := sets.New[string]()
	for i := range list.Groups {
		now.Insert(list.Groups[i].Name)
	}
	served := now.Has(knativeGroup)
	changed = s.served(knativeGroup) != served
	s.known.Store(&now)
	if served && !s.watched.Load() && s.appeared() {
		s.watched.Store(true)
		changed = true
	}
	return changed
}

// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// lookEvery is the time between two looks whether the API server has Evictions.
const lookEvery = time.Minute

// resourceLister is the part of discovery that is needed.
type resourceLister interface {
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// Served has whether the API server has Evictions. It is looked for until it has them: an upgrade turns the API on while this process
// runs. It is a manager.Runnable on each replica, whose webhook depends on it.
type Served struct {
	API   resourceLister
	Clock clock.Clock

	is atomic.Bool
}

var (
	_ manager.Runnable               = &Served{}
	_ manager.LeaderElectionRunnable = &Served{}
)

// Is reports whether the API server has had Evictions when it was looked at last.
func (s *Served) Is() bool { return s.is.Load() }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Served) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable: it looks until the API server has Evictions, or the context ends.
func (s *Served) Start(ctx context.Context) error {
	reported := false
	for {
		served, err := s.look(ctx)
		switch {
		case served:
			log.FromContext(ctx).Info("The API server has Evictions: requests to evict pods are answered")
			s.is.Store(true)
			return nil
		case err != nil && !reported:
			log.FromContext(ctx).Info("It is unknown whether the API server has Evictions: requests to evict pods are not answered",
				"error", err.Error())
			reported = true
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.Clock.After(lookEvery):
		}
	}
}

func (s *Served) look(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := s.API.ServerResourcesForGroupVersionWithContext(ctx, lifecyclev1alpha1.SchemeGroupVersion.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("discover %s: %w", lifecyclev1alpha1.SchemeGroupVersion, err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "evictions/status" }), nil
}

// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"context"
	"fmt"
	"time"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	kubeclient "berth.dev/berth/internal/kube/client"
)

// lookEvery is the time between two looks whether the API server has Evictions.
const lookEvery = time.Minute

// resource is what an API server has that has Evictions.
var resource = lifecyclev1alpha1.SchemeGroupVersion.WithResource("evictions/status")

// Served has whether the API server has Evictions. It is looked for until it has them: an upgrade turns the API on while this process
// runs. It is a manager.Runnable on each replica, whose webhook depends on it.
type Served struct {
	api kubeclient.Discovery
	is  chan struct{} // is closed once the API server has Evictions
}

// NewServed returns one that has not looked yet.
func NewServed(api kubeclient.Discovery) *Served { return &Served{api: api, is: make(chan struct{})} }

var (
	_ manager.Runnable               = &Served{}
	_ manager.LeaderElectionRunnable = &Served{}
)

// Is reports whether the API server has Evictions, as far as is known.
func (s *Served) Is() bool {
	select {
	case <-s.is:
		return true
	default:
		return false
	}
}

// await waits until the API server has Evictions. It returns false if the context ends before.
func (s *Served) await(ctx context.Context) bool {
	select {
	case <-s.is:
		return true
	case <-ctx.Done():
		return false
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Served) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable: it looks until the API server has Evictions, or the context ends.
func (s *Served) Start(ctx context.Context) error {
	reported := false
	_ = wait.PollUntilContextCancel(ctx, lookEvery, true, func(ctx context.Context) (bool, error) { // the error is that of the context
		served, err := s.look(ctx)
		switch {
		case served:
			log.FromContext(ctx).Info("The API server has Evictions: requests to evict pods are answered")
			close(s.is)
		case err != nil && !reported:
			log.FromContext(ctx).Info("It is unknown whether the API server has Evictions: requests to evict pods are not answered",
				"error", err.Error())
			reported = true
		}
		return served, nil
	})
	return nil
}

func (s *Served) look(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	served, err := kubeclient.Serves(ctx, s.api, resource)
	if err != nil {
		err = fmt.Errorf("discover %s: %w", resource.GroupVersion(), err)
	}
	return served, err
}

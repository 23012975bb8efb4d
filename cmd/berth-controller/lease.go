// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"berth.dev/berth/internal/kube/leaderguard"
)

// newManager returns a manager whose writes end with its lease. Without leader election the fence stays open.
func newManager(config *rest.Config, o ctrl.Options, guard *leaderguard.Fence) (ctrl.Manager, error) {
	config.Wrap(guard.Wrap)
	if !o.LeaderElection {
		return ctrl.NewManager(config, o)
	}
	limits := leaderguard.Limits{Lease: *o.LeaseDuration, RenewDeadline: *o.RenewDeadline}
	events := &leaseEvents{}
	lock, err := leaderelection.NewResourceLock(config, events, leaderelection.Options{
		LeaderElection:          true,
		LeaderElectionID:        o.LeaderElectionID,
		LeaderElectionNamespace: o.LeaderElectionNamespace,
		RenewDeadline:           limits.RenewDeadline,
	})
	if err != nil {
		return nil, fmt.Errorf("make the lock of the lease: %w", err)
	}
	o.LeaderElectionResourceLockInterface = guard.Lock(lock, limits)
	mgr, err := ctrl.NewManager(config, o)
	if err != nil {
		return nil, err
	}
	events.EventRecorder = mgr.GetEventRecorderFor(events.name) //nolint:staticcheck // the lock requires a recorder of the old API
	return mgr, mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return guard.Run(ctx, limits) }))
}

// leaseEvents records the events of the lease by the manager, which is made after the lock.
type leaseEvents struct {
	record.EventRecorder
	name string
}

var _ recorder.Provider = &leaseEvents{}

// GetEventRecorderFor implements recorder.Provider.
func (e *leaseEvents) GetEventRecorderFor(name string) record.EventRecorder {
	e.name = name
	return e
}

// GetEventRecorder implements recorder.Provider. The lock has events of the old kind.
func (*leaseEvents) GetEventRecorder(string) recorder.EventRecorder { return nil }

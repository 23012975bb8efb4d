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

// owned is a manager that returns a copy of its configuration to each caller. What one client changes of it, such as the timeout of
// its requests or its user agent, never applies to another client.
type owned struct{ ctrl.Manager }

// GetConfig implements cluster.Cluster.
func (m owned) GetConfig() *rest.Config { return rest.CopyConfig(m.Manager.GetConfig()) }

// newManager returns a manager whose writes end with its lease. Without leader election the fence stays open. It does not change the
// configuration.
func newManager(config *rest.Config, o ctrl.Options, guard *leaderguard.Fence) (ctrl.Manager, error) {
	config = rest.CopyConfig(config)
	config.Wrap(guard.Wrap)
	if !o.LeaderElection {
		mgr, err := ctrl.NewManager(config, o)
		return owned{mgr}, err
	}
	limits := leaderguard.Limits{Lease: *o.LeaseDuration, RenewDeadline: *o.RenewDeadline}
	events := &leaseEvents{}
	// A copy: NewResourceLock sets the user agent and the timeout of the configuration that it gets.
	lock, err := leaderelection.NewResourceLock(rest.CopyConfig(config), events, leaderelection.Options{
		LeaderElection:          true,
		LeaderElectionID:        o.LeaderElectionID,
		LeaderElectionNamespace: o.LeaderElectionNamespace,
		RenewDeadline:           limits.RenewDeadline,
	})
	if err != nil {
		return nil, fmt.Errorf("create the lock of the lease: %w", err)
	}
	o.LeaderElectionResourceLockInterface = guard.Lock(lock, limits)
	mgr, err := ctrl.NewManager(config, o)
	if err != nil {
		return nil, err
	}
	events.EventRecorder = mgr.GetEventRecorderFor(events.name) //nolint:staticcheck // the lock requires a recorder of the old API
	return owned{mgr}, mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return guard.Run(ctx, limits) }))
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

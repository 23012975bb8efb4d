// SPDX-License-Identifier: Apache-2.0

// Package reservation is the scheduler plugin that keeps pods off the capacity that Reservations hold for others, and leads
// the pods for which it is held there.
//
// internal/policies/reservations decides what is held. The Holder holds it on nodes that the scheduler selects.
package reservation

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/plugins/internal/perscheduler"
)

// Name of the plugin in KubeSchedulerConfiguration profiles.
const Name = "Reservation"

// Reservation implements the extension points. What is held is shared by all profiles of a scheduler.
type Reservation struct {
	*shared
	handle fwk.Handle
}

var (
	_ fwk.PreEnqueuePlugin  = &Reservation{}
	_ fwk.PreFilterPlugin   = &Reservation{}
	_ fwk.FilterPlugin      = &Reservation{}
	_ fwk.PostFilterPlugin  = &Reservation{}
	_ fwk.ReservePlugin     = &Reservation{}
	_ fwk.BindPlugin        = &Reservation{}
	_ fwk.EnqueueExtensions = &Reservation{}
	_ fwk.SignPlugin        = &Reservation{}
)

// Name returns the plugin's name.
func (pl *Reservation) Name() string { return Name }

// NewFactory returns a plugin factory for one scheduler binary. The Holder holds the capacity of the Reservations that the
// plugin watches; it is nil where nothing is held. The Preparers get one that makes Reservations, nil where no other plugin does.
func NewFactory(holder *Holder, preparers *Preparers) perscheduler.Factory {
	schedulers := &perscheduler.Parts[*shared]{}
	return func(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		sh, err := schedulers.Join(ctx, handle,
			func() (*shared, error) { return newShared(ctx, handle) },
			func(*shared) error { return nil })
		if err != nil {
			return nil, err
		}
		if holder != nil {
			holder.shared = sh
		}
		if preparers != nil && sh.writer != nil {
			preparers.Set(ctx, handle, &Preparer{shared: sh})
		}
		return &Reservation{shared: sh, handle: handle}, nil
	}
}

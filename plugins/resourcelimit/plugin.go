// SPDX-License-Identifier: Apache-2.0

// Package resourcelimit is the scheduler plugin that holds every pod to the
// ResourceLimit that it names or that selects it: its size and its nodes.
//
// What a limit means is decided in internal/limits. The plugin keeps the limits
// of the cluster there, and wakes the pods that wait when one of them changes.
package resourcelimit

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/config/validation"
	"berth.dev/berth/plugins/internal/perscheduler"
)

// Name of the plugin in KubeSchedulerConfiguration profiles.
const Name = "ResourceLimit"

// preFilterStateKey finds the cycle in CycleState. An interface constant would
// be boxed on every read.
const preFilterStateKey fwk.StateKey = "PreFilter" + Name

// ResourceLimit implements the extension points. It has no state of its own:
// the limits and the pods that wait are shared by all profiles of a scheduler.
type ResourceLimit struct{ *shared }

var (
	_ fwk.PreEnqueuePlugin  = &ResourceLimit{}
	_ fwk.PreFilterPlugin   = &ResourceLimit{}
	_ fwk.FilterPlugin      = &ResourceLimit{}
	_ fwk.PreScorePlugin    = &ResourceLimit{}
	_ fwk.ScorePlugin       = &ResourceLimit{}
	_ fwk.EnqueueExtensions = &ResourceLimit{}
	_ fwk.SignPlugin        = &ResourceLimit{}
)

// Name returns the plugin's name.
func (pl *ResourceLimit) Name() string { return Name }

// NewFactory returns a plugin factory for one scheduler binary. All profiles of
// a scheduler share one watch; the factory has one for each scheduler, so one
// factory can serve several schedulers of a process, as in tests.
func NewFactory() perscheduler.Factory {
	schedulers := &perscheduler.Parts[*shared]{}
	return func(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		args, err := perscheduler.Args(Name, obj, validation.ValidateResourceLimitArgs)
		if err != nil {
			return nil, err
		}
		s, err := schedulers.Join(ctx, handle,
			func() (*shared, error) { return newShared(ctx, handle, args) },
			func(sh *shared) error { return sh.agree(args) })
		if err != nil {
			return nil, err
		}
		return &ResourceLimit{shared: s}, nil
	}
}

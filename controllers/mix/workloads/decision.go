// SPDX-License-Identifier: Apache-2.0

// Package workloads holds in memory, for each workload revision, how it has satisfied its mix over time and what the
// rebalancer decided about it. The controllers of CapacityMixes share it. A new leader starts with an empty one.
package workloads

import (
	"maps"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
)

// Decision is what was reconciled in a namespace.
type Decision struct {
	Namespace string
	// All are all CapacityMixes of the namespace, nil where only some of it was reconciled. They are the cache's.
	All map[string]*v1alpha1.CapacityMix
	// Mixes are the CapacityMixes whose status may be another one.
	Mixes map[string]bool
	// Groups are the workloads that were reconciled.
	Groups []governing.GroupKey
}

// Add adds another decision about the same namespace.
func (d *Decision) Add(o *Decision) {
	if o.All != nil {
		d.All = o.All
	}
	if d.Mixes == nil {
		d.Mixes = map[string]bool{}
	}
	maps.Copy(d.Mixes, o.Mixes)
	d.Groups = append(d.Groups, o.Groups...)
}

// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Gates is what happens to pods with the scheduling gate berth.dev/capacity-mix when no scheduler opens it.
type Gates struct {
	// failOpenSeconds is how long no scheduler must have led, and a pod have waited, before its gate is opened without a
	// slot, from 0 to 3600 seconds. 0 opens none, ever. Where the schedulers run without leader election, a pod that has
	// waited 120 seconds more than that is let go. Default: 60.
	//
	// +optional
	FailOpenSeconds int32 `json:"failOpenSeconds"`

	// schedulerLease is the lease by which the schedulers agree on their leader.
	//
	// +optional
	SchedulerLease SchedulerLease `json:"schedulerLease"`
}

// SchedulerLease names a lease. Default: empty, which means the one in leaderElection of schedulerConfig, or without that
// file berth-scheduler in berth-system.
type SchedulerLease struct {
	// namespace is where the lease is. It is set together with name.
	//
	// +optional
	Namespace string `json:"namespace"`

	// name is the name of the lease.
	//
	// +optional
	Name string `json:"name"`
}

func (g Gates) validate(path *field.Path) field.ErrorList {
	all := inRange(path.Child("failOpenSeconds"), g.FailOpenSeconds, 0, 3600)
	lease, l := path.Child("schedulerLease"), g.SchedulerLease
	switch {
	case l.Name == "" && l.Namespace == "":
		return all
	case l.Name == "":
		return append(all, field.Required(lease.Child("name"), "namespace is set"))
	case l.Namespace == "":
		return append(all, field.Required(lease.Child("namespace"), "name is set"))
	}
	all = append(all, named(lease.Child("namespace"), l.Namespace, validation.IsDNS1123Label)...)
	return append(all, named(lease.Child("name"), l.Name, validation.IsDNS1123Subdomain)...)
}

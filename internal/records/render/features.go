// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"

	"k8s.io/utils/ptr"
)

// Features are what a profile of the controller turns on.
type Features struct {
	// NFREnforcement applies recommendations.
	NFREnforcement bool
	// HPA makes HorizontalPodAutoscalers.
	HPA bool
	// Knative lets Knative Services be made.
	Knative bool
	// Prometheus measures.
	Prometheus bool
	// LeaderElection and MTLS are what the profile expects of the process.
	LeaderElection, MTLS bool
	// ODGM lets records have one.
	ODGM bool
}

// Overrides are features that are set one by one; nil leaves the profile's.
type Overrides struct {
	NFREnforcement, HPA, Knative, Prometheus, LeaderElection, MTLS, ODGM *bool
}

// FeaturesOf returns the features of a profile, with those that are set one by
// one. A profile that is not known is dev.
func FeaturesOf(profile string, o Overrides) Features {
	var f Features
	switch strings.ToLower(profile) {
	case "edge":
		f = Features{HPA: true, Prometheus: true, LeaderElection: true}
	case "full", "prod", "production":
		f = Features{NFREnforcement: true, HPA: true, Prometheus: true, LeaderElection: true, MTLS: true, ODGM: true}
	}
	return Features{
		NFREnforcement: ptr.Deref(o.NFREnforcement, f.NFREnforcement),
		HPA:            ptr.Deref(o.HPA, f.HPA),
		Knative:        ptr.Deref(o.Knative, f.Knative),
		Prometheus:     ptr.Deref(o.Prometheus, f.Prometheus),
		LeaderElection: ptr.Deref(o.LeaderElection, f.LeaderElection),
		MTLS:           ptr.Deref(o.MTLS, f.MTLS),
		ODGM:           ptr.Deref(o.ODGM, f.ODGM),
	}
}

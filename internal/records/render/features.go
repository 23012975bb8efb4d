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
	// ODGM lets records have one.
	ODGM bool
}

// Overrides are features that are set one by one; nil leaves the profile's.
type Overrides struct {
	NFREnforcement, HPA, Knative, Prometheus, ODGM *bool
}

// FeaturesOf returns the features of a profile, with those that are set one by
// one. A profile that is not known is dev.
func FeaturesOf(profile string, o Overrides) Features {
	var f Features
	switch strings.ToLower(profile) {
	case "edge":
		f = Features{HPA: true, Prometheus: true}
	case "full", "prod", "production":
		f = Features{NFREnforcement: true, HPA: true, Prometheus: true, ODGM: true}
	}
	return Features{
		NFREnforcement: ptr.Deref(o.NFREnforcement, f.NFREnforcement),
		HPA:            ptr.Deref(o.HPA, f.HPA),
		Knative:        ptr.Deref(o.Knative, f.Knative),
		Prometheus:     ptr.Deref(o.Prometheus, f.Prometheus),
		ODGM:           ptr.Deref(o.ODGM, f.ODGM),
	}
}

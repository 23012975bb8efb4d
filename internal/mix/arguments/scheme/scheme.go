// SPDX-License-Identifier: Apache-2.0

// Package scheme registers the arguments of Berth's scheduler plugins with the scheduler's own scheme, so that the
// scheduler decodes them strictly and sets their defaults. Programs import it for this effect.
package scheme

import (
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	schedschemev1 "k8s.io/kube-scheduler/config/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"berth.dev/berth/apis/config"
	configv1 "berth.dev/berth/apis/config/v1"
)

func init() {
	// The scheduler converts arguments with a scheme of its own, which it makes from these builders.
	schedconfig.SchemeBuilder.Register(config.AddToScheme)
	schedschemev1.SchemeBuilder.Register(configv1.AddToScheme)
	AddToScheme(schedscheme.Scheme)
}

// AddToScheme adds the arguments in all versions to a scheme. It panics if other types are registered under their
// names.
func AddToScheme(scheme *runtime.Scheme) {
	utilruntime.Must(config.AddToScheme(scheme))
	utilruntime.Must(configv1.AddToScheme(scheme))
}

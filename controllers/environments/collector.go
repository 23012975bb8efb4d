// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/phasecount"
)

// NewCollector returns what counts the environments in each phase.
func NewCollector(r client.Reader) prometheus.Collector {
	return phasecount.New(r, environmentsDesc, slices.Collect(maps.Keys(reasons)),
		func(all *v1alpha1.EnvironmentList, yield func(v1alpha1.EnvironmentPhase)) {
			for i := range all.Items {
				yield(cmp.Or(all.Items[i].Status.Phase, v1alpha1.EnvironmentPending))
			}
		})
}

// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/phasecount"
)

// NewCollector returns what counts the environments in each phase.
func NewCollector(r client.Reader) prometheus.Collector {
	c := &phasecount.Collector{
		Reader: r, Desc: environmentsDesc,
		NewList: func() client.ObjectList { return &v1alpha1.EnvironmentList{} },
		EachPhase: func(list client.ObjectList, yield func(string)) {
			items := list.(*v1alpha1.EnvironmentList).Items //nolint:forcetypeassert // of NewList
			for i := range items {
				yield(string(cmp.Or(items[i].Status.Phase, v1alpha1.EnvironmentPending)))
			}
		},
	}
	for p := range reasons {
		c.Phases = append(c.Phases, string(p))
	}
	return c
}

// SPDX-License-Identifier: Apache-2.0

package records

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/phasecount"
)

// NewCollector returns what counts the records in each phase.
func NewCollector(r client.Reader) prometheus.Collector {
	return &phasecount.Collector{
		Reader: r, Desc: recordsDesc,
		Phases: []string{
			string(v1alpha1.PhasePending), string(v1alpha1.PhaseProgressing), string(v1alpha1.PhaseAvailable),
			string(v1alpha1.PhaseDegraded), string(v1alpha1.PhaseDeleting),
		},
		NewList: func() client.ObjectList { return &v1alpha1.DeploymentRecordList{} },
		EachPhase: func(list client.ObjectList, yield func(string)) {
			items := list.(*v1alpha1.DeploymentRecordList).Items //nolint:forcetypeassert // of NewList
			for i := range items {
				yield(string(cmp.Or(items[i].Status.Phase, v1alpha1.PhasePending)))
			}
		},
	}
}

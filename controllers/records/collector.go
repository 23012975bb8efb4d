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
	phases := []v1alpha1.DeploymentPhase{
		v1alpha1.PhasePending, v1alpha1.PhaseProgressing, v1alpha1.PhaseAvailable, v1alpha1.PhaseDegraded, v1alpha1.PhaseDeleting,
	}
	return phasecount.New(r, recordsDesc, phases, func(all *v1alpha1.DeploymentRecordList, yield func(v1alpha1.DeploymentPhase)) {
		for i := range all.Items {
			yield(cmp.Or(all.Items[i].Status.Phase, v1alpha1.PhasePending))
		}
	})
}

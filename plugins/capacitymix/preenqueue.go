// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/mix/gate"
)

// ErrReasonLookupPending is a reason for which PreEnqueue holds a pod back. It is
// logged; the pod's condition does not change.
const ErrReasonLookupPending = "the look-up of the mix of this new workload is pending"

// PreEnqueue holds pods back until the ledger has the cluster, and the first
// pods of a workload until it is certain which mix governs them, or that none does
// (docs/decisions/0005). It is called under the lock of the scheduling queue and
// reads caches only; what it starts runs beside it and activates the pod.
func (pl *CapacityMix) PreEnqueue(ctx context.Context, pod *corev1.Pod) *fwk.Status {
	if gate.Has(pod) {
		return nil // the ungater holds it back
	}
	if held := pl.Startup.PreEnqueue(ctx, pod); held != nil {
		return held
	}
	if !pl.Lookups.Required(pod) {
		return nil
	}
	pl.Lookups.Enqueue(pod)
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReasonLookupPending)
}

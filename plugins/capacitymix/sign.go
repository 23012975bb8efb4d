// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// ErrReasonNotSigned is the reason for which a pod has no signature. It is logged.
const ErrReasonNotSigned = "pods with a mix are not signable"

// notSigned is shared, like skip: the framework does not change the status of a SignPod.
var notSigned = fwk.NewStatus(fwk.Unschedulable, ErrReasonNotSigned)

// SignPod refuses a signature to pods with a mix, or whose mix is not known yet:
// the scheduler tries a pod first on the node that was second best for the pod
// with the same signature before it, and the next pod of a group has another
// slot, often of the other type. Other pods have nothing here that could
// differ. It is called under the lock of the scheduling queue and reads caches
// only.
func (pl *CapacityMix) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if !pl.Startup.HasSynced() {
		return nil, notSigned
	}
	if p, _, known := pl.Lookups.Resolve(pl.resolver, pod); p != nil || !known {
		return nil, notSigned
	}
	return nil, nil
}

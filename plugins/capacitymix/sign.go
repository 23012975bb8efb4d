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

// SignPod refuses pods with a mix, and pods whose mix is not known yet: the scheduler would try the node that was second
// best for the pod before, but the next pod of a group often has a slot of the other type, and its siblings change the
// scores of all nodes around them. To other pods it adds nothing. It is called under the lock of the scheduling queue and
// reads caches only.
func (pl *CapacityMix) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if !pl.Startup.HasSynced() {
		return nil, notSigned
	}
	if p, _, known := pl.Lookups.Resolve(pl.resolver, pod); p != nil || !known {
		return nil, notSigned
	}
	return nil, nil
}

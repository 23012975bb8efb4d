// SPDX-License-Identifier: Apache-2.0

package resourcelimit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// ErrReasonNotSigned is the reason for which a pod has no signature. It is logged.
const ErrReasonNotSigned = "pods with a ResourceLimit are not signable"

// notSigned is shared, like skip: the framework does not change the status of a SignPod.
var notSigned = fwk.NewStatus(fwk.Unschedulable, ErrReasonNotSigned)

// SignPod refuses a signature to pods with a size, whose nodes follow from a
// limit that can change. It is called under the lock of the scheduling queue.
func (pl *ResourceLimit) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if !pl.HasSynced() {
		return nil, notSigned
	}
	if size := pl.limits.For(pod); size.Missing != "" || size.Limit != nil {
		return nil, notSigned
	}
	return nil, nil
}

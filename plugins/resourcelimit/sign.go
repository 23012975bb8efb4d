// SPDX-License-Identifier: Apache-2.0

package resourcelimit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits/registry"
)

// signerName is the key of what the plugin adds to a pod's signature.
const signerName = "berth.dev.ResourceLimit"

// ErrReasonNotSigned is the reason for which a pod has no signature. It is logged.
const ErrReasonNotSigned = "the pod's ResourceLimit is not known"

// notSigned is shared, like skip: the framework does not change the status of a SignPod.
var notSigned = fwk.NewStatus(fwk.Unschedulable, ErrReasonNotSigned)

// signature is all that decides which nodes a pod's limit allows and prefers. The limit may change before the pod is
// scheduled: the scheduler filters the node that it caches once more, and caches it for half a second.
type signature struct {
	// Limit is the limit's UID and Generation that of its spec.
	Limit      string
	Generation int64
	// Scores is false if preferences are in the pod's own affinity.
	Scores bool
}

// SignPod signs a pod by its limit, if the limit has rules for nodes: pods of equal signature fit the same nodes. It is
// called under the lock of the scheduling queue.
func (pl *ResourceLimit) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if !pl.HasSynced() {
		return nil, notSigned
	}
	size := pl.limits.For(pod)
	switch {
	case size.Missing != "":
		return nil, notSigned
	case size.Limit == nil:
		return nil, nil
	}
	s := signature{Limit: string(size.Limit.Limit.UID), Generation: size.Limit.Limit.Generation, Scores: scores(size.Limit, pod)}
	if !s.Scores && !size.Limit.Restricts() {
		return nil, nil
	}
	return []fwk.SignFragment{{Key: signerName, Value: s}}, nil
}

// scores reports whether a limit prefers nodes for a pod whose own affinity lacks these preferences: those that the
// webhook has put there count once.
func scores(limit *registry.Compiled, pod *corev1.Pod) bool {
	return limit.Prefers() && pod.Annotations[v1alpha1.ResolvedLimitAnnotation] != limit.Version()
}

// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/policy"
)

// ErrReasonAsking stands in the log while a pod is held back by PreEnqueue. The
// pod's own condition does not change: nothing is written for that time.
const ErrReasonAsking = "checking whether a mix governs this new workload"

// PreEnqueue holds back the first pods of a workload until it is certain which
// mix governs them, or that none does (docs/decisions/0005). It is called under
// the lock of the scheduling queue and reads caches only.
func (pl *CapacityMix) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if gate.Has(pod) {
		return nil // it is held when it is given its slot
	}
	if !pl.uncertain(pod) {
		return nil
	}
	pl.inquiry.hold(pod)
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReasonAsking)
}

// uncertain reports whether a pod may have a mix that is not known yet: its owner
// is not, or nothing known governs it and its workload is new.
func (sh *shared) uncertain(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || len(ref.UID) > maxUID || sh.inquiry.answered(pod.Namespace, ref.UID) || !policy.Governable(pod) || settled(pod) {
		return false
	}
	misses := sh.controllers.misses.Load()
	p, _ := sh.unhurried.Resolve(pod)
	if sh.controllers.misses.Load() != misses && sh.unread(pod) {
		return true
	}
	return (p == nil || p.Source == policy.SourceDefault) && sh.unlisted(pod)
}

// unlisted reports whether the mixes of a namespace must be listed before a pod
// that a mix may steer is tried for the first time.
func (sh *shared) unlisted(pod *corev1.Pod) bool {
	return sh.inquiry.list != nil && !tried(pod) && !sh.inquiry.covers(pod) && !sh.classifier.Pins(&pod.Spec)
}

// unread reports whether the owner of a pod that a mix may steer must be read
// before the pod is tried for the first time.
func (sh *shared) unread(pod *corev1.Pod) bool {
	return !tried(pod) && sh.controllers.missing(pod) != nil && (settled(pod) || !sh.classifier.Pins(&pod.Spec))
}

// tried reports whether a scheduler has tried a pod before: then it is none of
// the first of its workload. However many owners there are, and are forgotten,
// no pod is held at each of its attempts.
func tried(pod *corev1.Pod) bool { return unschedulableSince(pod) != nil }

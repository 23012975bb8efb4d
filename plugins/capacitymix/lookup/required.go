// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

// Required reports whether a pod may have a mix that is not known yet: its owner
// is not in the caches, or no known mix governs it and its workload is new.
func (l *Lookups) Required(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || len(ref.UID) > maxUID || l.completed(pod.Namespace, ref.UID) || !governing.Governable(pod) || ungated(pod) {
		return false
	}
	p, _, known := l.Resolve(l.o.Resolver, pod)
	return !known || (p == nil || p.Source == governing.SourceDefault) && l.listRequired(pod)
}

// Resolve returns the mix of a pod and its invalid annotations from the caches
// alone. known is false if the mix is not certain, since the pod's owner has to
// be read.
//
// The count of misses makes that cheap: no owner is looked up twice for a pod
// whose owner is known. A miss of another goroutine meanwhile costs a second
// look-up and nothing else. The annotations of a pod have its mix without a look-up of its owner, but not the
// highest owner, by which its group may be found.
func (l *Lookups) Resolve(r *governing.Resolver, pod *corev1.Pod) (p *governing.Mix, invalid []governing.InvalidAnnotation, known bool) {
	misses := l.o.Owners.misses.Load()
	p, invalid = r.Resolve(pod)
	certain := l.o.Owners.misses.Load() == misses && (p == nil || p.Grouping.By != governing.ByTop)
	return p, invalid, certain || !l.readRequired(pod)
}

// listRequired reports whether the mixes of a namespace must be listed before a
// pod that a mix may govern is tried for the first time.
func (l *Lookups) listRequired(pod *corev1.Pod) bool {
	return l.o.ListMixes != nil && !tried(pod) && !l.covers(pod) && !l.o.Classifier.Pins(&pod.Spec)
}

// readRequired reports whether the owner of a pod that a mix may govern must be
// read before the pod is tried for the first time.
func (l *Lookups) readRequired(pod *corev1.Pod) bool {
	return !tried(pod) && l.o.Owners.unknown(pod) != nil && (ungated(pod) || !l.o.Classifier.Pins(&pod.Spec))
}

// tried reports whether a scheduler has tried a pod before: then it is none of
// the first of its workload. However many owners there are, and are evicted from
// the caches, no pod is held back at each of its attempts.
func tried(pod *corev1.Pod) bool { return ledger.Unschedulable(pod) != nil }

// ungated reports whether a pod has its slot and its type for good.
func ungated(pod *corev1.Pod) bool {
	_, ok := gate.LimitedTo(pod)
	return ok
}

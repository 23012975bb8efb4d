// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/interruptions"
)

// avoided returns the interruption domains that a replacement avoids, nil for none. The plugin CapacityMix enforces it, which this package
// must not import; both use internal/mix/interruptions. The candidates are nodes of the type of the slot. A replacement with the gate has
// its place by its node affinity alone, which excludes them where it can.
func (p *Profile) avoided(q *Question, pod *corev1.Pod, full []filled, candidates []fwk.NodeInfo) *interruptions.Quarantine {
	if q.Quarantine == nil || q.Wants != capacity.Spot || gate.Made(q.next()) && !p.excludes(q.next(), q.Quarantine) {
		return nil
	}
	usable := interruptions.Usable(pod, utilfeature.DefaultFeatureGate.Enabled(features.TaintTolerationComparisonOperators))
	return q.Quarantine.Sparing(func(yield func(map[string]string) bool) {
		for _, info := range candidates {
			node := info.Node()
			if q.Quarantine.Outside(node.Labels) && refuses(full, node) == "" && usable(node) && !yield(node.Labels) {
				return
			}
		}
	})
}

// excludes reports whether the node affinity of the successor of a pod can exclude the domains in quarantine, once its gate is removed.
func (p *Profile) excludes(pod *corev1.Pod, q *interruptions.Quarantine) bool {
	own := pod.Spec.DeepCopy()
	if _, ungated := gate.LimitedTo(pod); ungated {
		gate.Unrequire(own, pod)
		p.Label.Unlimit(own)
	}
	return gate.Avoids(own, q)
}

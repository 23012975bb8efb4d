// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/internal/taints"
)

// ErrReasonDomainsInterrupted is the reason for spot nodes of further domains in quarantine.
const ErrReasonDomainsInterrupted = "node(s) are in other interruption domains in quarantine"

// avoidance is that of the domains in quarantine, for a pod with a spot slot whose mix requires it.
type avoidance struct {
	// seen is what was in quarantine when the pod was tried, and applies what of it applies to the pod.
	seen, applies *interruptions.Quarantine
	reasons       namedDomains
}

// avoid has the pod avoid the domains that are in quarantine now, if its mix requires that and spot nodes of others are left to it. A pod
// whose gate was removed has its own node affinity: an autoscaler, which follows that alone, would launch nodes that Filter refuses.
func (pl *CapacityMix) avoid(s *preFilterState, pod *corev1.Pod, nodes []fwk.NodeInfo) {
	if !s.governing.AvoidInterrupted || s.ungated || s.slotType != capacity.Spot {
		return
	}
	s.avoids = &avoidance{seen: pl.Ledger.InQuarantine()}
	if s.avoids.seen == nil { // a quarantine may begin until Reserve
		return
	}
	usable := interruptions.Usable(pod, taints.Compared())
	s.avoids.applies = s.avoids.seen.Sparing(func(yield func(map[string]string) bool) {
		for _, info := range nodes {
			n := pl.node(info)
			if n.Type == capacity.Spot && !s.full(n) && usable(info.Node()) && !yield(n.Labels()) {
				return
			}
		}
	})
}

// avoidsNodes reports whether a pod is kept off the nodes in quarantine.
func (s *preFilterState) avoidsNodes() bool { return s.avoids != nil && s.avoids.applies != nil }

// interrupted returns why a spot node is in a domain that the pod avoids, nil if it is in none.
func (s *preFilterState) interrupted(pod *corev1.Pod, n ledger.Node) *fwk.Status {
	if !n.Quarantined || !s.avoidsNodes() {
		return nil
	}
	r, refused := s.avoids.applies.Refuse(n.Labels())
	if !refused {
		return nil
	}
	reason, first := s.avoids.reasons.reason(domain{value: r.Domain}, r.Reason, ErrReasonDomainsInterrupted)
	if first {
		s.plugin.Quarantine.Refused(pod.Namespace, s.avoids.seen)
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
}

// outrun reports whether the domain of a node came into quarantine after the pod was tried on it. The members of a pod group have their
// nodes together by then.
func (pl *CapacityMix) outrun(s *preFilterState, node string) bool {
	if s.avoids == nil || s.member != nil || s.avoids.seen != nil && s.avoids.applies == nil {
		return false
	}
	n, _ := pl.Ledger.Node(node)
	return n.Quarantined
}

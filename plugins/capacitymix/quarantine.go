// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/internal/taints"
)

// maxLooks is how often PreFilter looks for a node outside of quarantine while nodes change.
const maxLooks = 3

// avoidance is that of the domains in quarantine, for a pod with a spot slot whose mix requires it.
type avoidance struct {
	// seen is what was in quarantine when the pod was tried, and applies what of it applies to the pod. They are not older than changes.
	seen, applies *interruptions.Quarantine
	changes       uint64
	// except is the node on which preemption frees capacity for the pod: others would be preempted for it elsewhere, too.
	except string
	// reasons are written as the first node is refused. Filter is called for many nodes at once.
	refused sync.Once
	reasons interruptions.Reasons
}

// avoid has the pod avoid the domains that are in quarantine now, if its mix requires that and spot nodes of others are left to it. A pod
// whose gate was removed has its own node affinity: an autoscaler, which follows that alone, would launch nodes that Filter refuses. A pod
// with an on-demand slot may use all spot nodes, also where others of its unit have borrowed spot.
func (pl *CapacityMix) avoid(s *preFilterState, pod *corev1.Pod, nodes []fwk.NodeInfo) {
	if !s.governing.AvoidInterrupted || gate.ByAffinity(pod) || s.slotType != capacity.Spot ||
		s.governing.Mix.TypeOf(s.slot) != capacity.Spot {
		return
	}
	s.avoids = &avoidance{}
	if s.nominated {
		s.avoids.except = pod.Status.NominatedNodeName
	}
	for range maxLooks {
		s.avoids.changes = pl.Ledger.QuarantineChanges()
		s.avoids.seen = pl.Ledger.InQuarantine()
		if s.avoids.applies = pl.sparing(s, pod, nodes); s.avoids.applies != nil || s.avoids.changes == pl.Ledger.QuarantineChanges() {
			return
		}
	}
}

// sparing returns what applies to a pod of what is in quarantine, nil where no other node is left to it.
func (pl *CapacityMix) sparing(s *preFilterState, pod *corev1.Pod, nodes []fwk.NodeInfo) *interruptions.Quarantine {
	if s.avoids.seen == nil { // a quarantine may begin until the pod is bound
		return nil
	}
	usable := interruptions.Usable(pod, taints.Compared())
	return s.avoids.seen.Sparing(func(yield func(map[string]string) bool) {
		for _, info := range nodes {
			n, known := pl.present(info.Node().Name)
			if known && n.OutsideQuarantine() && !s.full(n) && usable(info.Node()) && !yield(n.Labels()) {
				return
			}
		}
	})
}

// present returns the ledger's description of a node, false for one that is deleted. The snapshot has a deleted node for longer than the
// scheduling queue has its event, but the ledger wakes the pods. A new node may be in the snapshot before it is in the ledger.
func (pl *CapacityMix) present(name string) (ledger.Node, bool) {
	if n, known := pl.Ledger.Node(name); known {
		return n, true
	}
	node, err := pl.Nodes.Get(name)
	if err != nil {
		return ledger.Node{}, false
	}
	return pl.Ledger.Describe(node), true
}

// avoidsNodes reports whether a pod is kept off the nodes in quarantine.
func (s *preFilterState) avoidsNodes() bool { return s.avoids != nil && s.avoids.applies != nil }

// interrupted returns why a spot node is in a domain that the pod avoids, nil if it is in none.
func (s *preFilterState) interrupted(pod *corev1.Pod, n ledger.Node) *fwk.Status {
	if !n.Quarantined || !s.avoidsNodes() || n.Name() == s.avoids.except {
		return nil
	}
	r, refused := s.avoids.applies.Refuse(n.Labels())
	if !refused {
		return nil
	}
	s.avoids.refused.Do(func() {
		s.avoids.reasons = s.avoids.applies.Reasons()
		s.plugin.Quarantine.Refused(pod.Namespace, s.avoids.changes, s.member != nil)
	})
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, s.avoids.reasons.Of(r))
}

// outrun reports whether the domain of a node came into quarantine after the pod was tried on it. The members of a pod group have their
// nodes together by then.
func (pl *CapacityMix) outrun(s *preFilterState, node string) bool {
	a := s.avoids
	if a == nil || s.member != nil || node == a.except || a.seen != nil && a.applies == nil {
		return false
	}
	n, _ := pl.present(node)
	return n.Quarantined
}

// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/internal/capacity"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

// domainStep is what one spot pod of the group more than in the emptiest
// interruption domain costs a node. Four more cost it everything, so domains
// stay even within a few pods however large the group is.
const domainStep = framework.MaxNodeScore / 4

// PreScore looks up how the group's spot pods are spread. There is nothing to
// score for pods on on-demand slots.
func (pl *CapacityMix) PreScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	c := cycleOf(state)
	if c == nil || c.wants == capacity.OnDemand && c.attempt.Stage != ledger.StageBorrow {
		return fwk.NewStatus(fwk.Skip)
	}
	c.domains = pl.ledger.DomainsOf(c.group)
	c.least = c.domains.Most
	for _, info := range nodes {
		if n, _ := pl.ledger.Node(info.Node().Name); n.Type == capacity.Spot {
			c.least = min(c.least, c.domains.Count(n))
		}
	}
	return nil
}

// Score prefers the nodes of the slot's type and, among spot nodes, those in
// interruption domains with few pods of the group.
func (pl *CapacityMix) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	c := cycleOf(state)
	if c == nil {
		return 0, nil
	}
	n, _ := pl.ledger.Node(nodeInfo.Node().Name)
	if n.Type != c.wants {
		return 0, nil
	}
	if n.Type == capacity.OnDemand {
		return framework.MaxNodeScore, nil
	}
	over := int64(c.domains.Count(n) - c.least)
	return max(0, framework.MaxNodeScore-over*domainStep), nil
}

// ScoreExtensions returns nil: scores are final.
func (pl *CapacityMix) ScoreExtensions() framework.ScoreExtensions { return nil }

// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"math"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

// What a node loses of its score, of 100: for every spot pod of the group that
// its interruption domain has more than the emptiest, for every pod of the group
// that its zone has more, and for every one on the node itself. So domains and
// zones stay even within a few pods however large the group is.
const (
	domainStep = framework.MaxNodeScore / 4
	zoneStep   = framework.MaxNodeScore / 10
	hostStep   = framework.MaxNodeScore / 4
)

// crowd is how many pods of the group there are around a node.
type crowd struct{ domain, zone, host int32 }

func (c *cycle) crowdAt(n ledger.Node, name string) crowd {
	k := crowd{zone: c.spread.Zone(n), host: c.spread.Host(name)}
	if n.Type == capacity.Spot {
		k.domain = c.spread.Domain(n)
	}
	return k
}

// crowded is more crowded than any node.
var crowded = crowd{math.MaxInt32, math.MaxInt32, math.MaxInt32}

// fewest is the least of each in both.
func (k crowd) fewest(o crowd) crowd {
	return crowd{domain: min(k.domain, o.domain), zone: min(k.zone, o.zone), host: min(k.host, o.host)}
}

// score is what a crowd leaves of a node's score, where the least crowded have so many.
func (k crowd) score(least crowd) int64 {
	lost := int64(k.domain-least.domain)*domainStep + int64(k.zone-least.zone)*zoneStep + int64(k.host-least.host)*hostStep
	return max(0, framework.MaxNodeScore-lost)
}

// PreScore finds the least crowded of the nodes that are to be scored. Of a
// sample that is known already.
func (pl *CapacityMix) PreScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	c := cycleOf(state)
	if c == nil {
		return skip
	}
	if c.attempt.Stage == ledger.StageSample {
		return nil
	}
	c.spread = pl.ledger.SpreadOf(c.group, func(yield func(string) bool) {
		for _, info := range nodes {
			if !yield(info.Node().Name) {
				return
			}
		}
	})
	c.least = crowded
	for _, info := range nodes {
		name := info.Node().Name
		if n, _ := pl.ledger.Node(name); n.Type == c.wants {
			c.least = c.least.fewest(c.crowdAt(n, name))
		}
	}
	return nil
}

// Score prefers the nodes of the slot's type and, among these, those with few
// pods of the group around them.
func (pl *CapacityMix) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	c := cycleOf(state)
	if c == nil {
		return 0, nil
	}
	name := nodeInfo.Node().Name
	n, _ := pl.ledger.Node(name)
	if n.Type != c.wants {
		return 0, nil
	}
	return c.crowdAt(n, name).score(c.least), nil
}

// Spreads reports whether the pod of a scheduling cycle has a mix: then Score
// prefers nodes with few of its siblings around.
func Spreads(state fwk.CycleState) bool { return cycleOf(state) != nil }

// ScoreExtensions returns nil: scores are final.
func (pl *CapacityMix) ScoreExtensions() framework.ScoreExtensions { return nil }

// SPDX-License-Identifier: Apache-2.0

package nodesample

import (
	"math"

	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

// What a node loses of its score, of 100: for every spot pod of the group that
// its interruption domain has more than the emptiest, for every pod of the group
// that its zone has more, and for every one on the node itself. So domains and
// zones stay even within a few pods however large the group is.
const (
	domainStep = fwk.MaxScore / 4
	zoneStep   = fwk.MaxScore / 10
	hostStep   = fwk.MaxScore / 4
	// limitStep is what a node loses for every limit of replicas in a domain that is a preference and has been reached.
	limitStep = fwk.MaxScore / 2
	// quarantineStep is what a node loses in a domain in quarantine. It has a bound: replicas that are crowded elsewhere are lost
	// together there.
	quarantineStep = 3 * domainStep
)

// Group is the group of a pod where domains are limited.
type Group struct {
	Limits *ledger.Limits
	// Unit is that of the pod, "" for none, and Open is set for a pod that has a place in the limits without a node.
	Unit string
	Open bool
}

// refuses reports whether a node is in a domain that is full.
func (g *Group) refuses(info fwk.NodeInfo) bool {
	_, refused := g.Limits.Refuse(g.Unit, g.Open, info.Node().Labels)
	return refused
}

// Spread scores nodes by how few pods of a group are on them and around them.
type Spread struct {
	limited *Group
	pods    ledger.Spread
	least   crowding
}

// SpreadOf returns the spread of a group over nodes. Those of a type are to be scored. limited is nil where no domain is limited.
func SpreadOf(l *ledger.Ledger, group governing.GroupKey, limited *Group, t capacity.Type, nodes []fwk.NodeInfo) Spread {
	s := Spread{limited: limited, least: mostCrowded}
	s.pods = l.SpreadOf(group, func(yield func(string) bool) {
		for _, info := range nodes {
			if !yield(info.Node().Name) {
				return
			}
		}
	})
	for _, info := range nodes {
		name := info.Node().Name
		if n, _ := l.Node(name); n.Type == t {
			s.least = s.least.min(s.around(n, name))
		}
	}
	return s
}

// Score is the score of a node, up to fwk.MaxScore.
func (s *Spread) Score(n ledger.Node, name string) int64 { return s.around(n, name).score(s.least) }

// crowding is how many pods of the group there are around a node.
type crowding struct {
	domain, zone, host int32
	// over is how many limits are reached.
	over int32
	// quarantined is 1 on a spot node whose interruption domain is in quarantine.
	quarantined int32
}

var mostCrowded = crowding{math.MaxInt32, math.MaxInt32, math.MaxInt32, math.MaxInt32, math.MaxInt32}

func (s *Spread) around(n ledger.Node, name string) crowding {
	k := crowding{zone: s.pods.Zone(n), host: s.pods.Host(name)}
	if n.Type == capacity.Spot {
		k.domain = s.pods.Domain(n)
		if n.Quarantined {
			k.quarantined = 1
		}
	}
	if s.limited != nil {
		k.over = s.limited.Limits.Over(s.limited.Unit, n.Labels())
	}
	return k
}

// min is the least of each in both.
func (k crowding) min(o crowding) crowding {
	return crowding{
		domain: min(k.domain, o.domain), zone: min(k.zone, o.zone), host: min(k.host, o.host), over: min(k.over, o.over),
		quarantined: min(k.quarantined, o.quarantined),
	}
}

// score is what remains of a node's score, relative to the least crowded node.
func (k crowding) score(least crowding) int64 {
	lost := int64(k.domain-least.domain)*domainStep + int64(k.zone-least.zone)*zoneStep + int64(k.host-least.host)*hostStep +
		int64(k.over-least.over)*limitStep + int64(k.quarantined-least.quarantined)*quarantineStep
	return max(0, fwk.MaxScore-lost)
}

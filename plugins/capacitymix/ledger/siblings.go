// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/mix/governing"
)

// siblings counts the pods of a group on known nodes, of both capacity types. A group has them once Siblings was called for it:
// groups that no mix spreads pay nothing for them. Guarded by Ledger.mu.
type siblings struct {
	// key is the node label that names failure domains. Nodes without a label are in one domain, that of the empty value.
	key                   string
	nodes, zones, domains tally
}

func newSiblings(key string) *siblings {
	return &siblings{key: key, nodes: newTally(), zones: newTally(), domains: newTally()}
}

// add counts a pod on a node.
func (s *siblings) add(node *details) {
	s.nodes.add(node.name)
	s.zones.add(node.zone)
	s.domains.add(node.labels[s.key])
}

// remove takes a pod from a node where it is counted.
func (s *siblings) remove(node *details) {
	s.nodes.remove(node.name)
	s.zones.remove(node.zone)
	s.domains.remove(node.labels[s.key])
}

// tally counts pods by place. The most at any place are known without a visit of all places: a group can be on thousands of
// nodes.
type tally struct {
	pods map[string]int32
	// places[n] is the number of places with n+1 pods. The last one is not 0.
	places []int32
}

func newTally() tally { return tally{pods: map[string]int32{}} }

func (t *tally) add(place string) {
	n := t.pods[place]
	t.pods[place] = n + 1
	if n > 0 {
		t.places[n-1]--
	}
	if int(n) == len(t.places) {
		t.places = append(t.places, 0)
	}
	t.places[n]++
}

func (t *tally) remove(place string) {
	n := t.pods[place] - 1
	if t.places[n]--; t.places[n] == 0 && int(n) == len(t.places)-1 {
		t.places = t.places[:n]
	}
	if n == 0 {
		delete(t.pods, place)
		return
	}
	t.pods[place] = n
	t.places[n-1]++
}

// most is the number of pods at the fullest place.
func (t *tally) most() int { return len(t.places) }

// Around is the number of pods of a group on a node, in its zone and in its failure domain.
type Around struct{ OnNode, InZone, InDomain int }

// Siblings returns how many pods of a group are around each of some nodes, in their order, and the most on any node, in any zone
// and in any failure domain of the cluster. key is the node label that names failure domains. The first call for a group and a
// key counts the pods of the group; later ones cost the same however many pods and nodes there are.
func (l *Ledger) Siblings(group governing.GroupKey, key string, nodes []fwk.NodeInfo) (around []Around, most Around) {
	around = make([]Around, len(nodes))
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.siblingsOf(group, key)
	for i, info := range nodes {
		n := info.Node()
		around[i] = Around{
			OnNode:   int(s.nodes.pods[n.Name]),
			InZone:   int(s.zones.pods[n.Labels[corev1.LabelTopologyZone]]),
			InDomain: int(s.domains.pods[n.Labels[key]]),
		}
	}
	return around, Around{OnNode: s.nodes.most(), InZone: s.zones.most(), InDomain: s.domains.most()}
}

// siblingsOf returns the counts of a group, which begin with the first call for a key.
func (l *Ledger) siblingsOf(group governing.GroupKey, key string) *siblings {
	g := l.groups[group]
	if g == nil {
		return &siblings{}
	}
	if g.siblings == nil || g.siblings.key != key {
		g.siblings = newSiblings(key)
		for _, r := range g.members {
			if r.counted = l.nodes.byName[r.node].details; r.counted != nil {
				g.siblings.add(r.counted)
			}
		}
	}
	return g.siblings
}

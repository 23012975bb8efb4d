// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/mix/capacity"
)

// numTypes is the number of capacity types, Unknown included.
const numTypes = 3

// Node is what the scheduler uses of a node. It is small and a value:
// Filter and Score read one per call, and every pointer that they need not
// follow counts.
type Node struct {
	Type capacity.Type
	// Departing is set for a node that is about to go.
	Departing bool
	// Quarantined is set for a spot node of an interruption domain that is in quarantine.
	Quarantined bool
	// domain is the interruption domain by the configured labels.
	domain int32
	// zoneNumber is that of the node's zone.
	zoneNumber int32
	*details
}

// details are the parts that are read seldom. Immutable.
type details struct {
	name      string
	accepting bool
	zone      string
	labels    map[string]string
}

// Name is the name of the node.
func (n Node) Name() string { return n.name }

// Labels are the labels of the node, which must not be changed.
func (n Node) Labels() map[string]string {
	if n.details == nil {
		return nil
	}
	return n.labels
}

// Takes reports whether the node is of a type and takes pods.
func (n Node) Takes(t capacity.Type) bool { return n.Type == t && n.accepting }

// OutsideQuarantine reports whether the node is a spot node that takes pods, of no interruption domain in quarantine.
func (n Node) OutsideQuarantine() bool { return n.Takes(capacity.Spot) && !n.Quarantined }

// Describe works out what the ledger keeps of a node, without keeping it.
func (l *Ledger) Describe(node *corev1.Node) Node {
	t, _ := l.classifier.Classify(node)
	_, departing := capacity.Departing(node)
	quarantined := t == capacity.Spot && !l.InQuarantine().Outside(node.Labels)
	return Node{Type: t, Departing: departing, Quarantined: quarantined, details: &details{
		name:      node.Name,
		accepting: !departing && capacity.Accepting(node),
		zone:      node.Labels[corev1.LabelTopologyZone],
		labels:    node.Labels,
	}}
}

// SetNode adds a node or takes over its changes. It costs little when nothing
// changed that the ledger keeps. It reports whether pods that the node was
// refused to may find another answer: its type or departing changed.
func (l *Ledger) SetNode(node *corev1.Node) (turned bool) {
	n := l.Describe(node)
	l.mu.Lock()
	defer l.mu.Unlock()
	old, known := l.nodes.byName[n.name]
	if known {
		if old.same(n) {
			return false
		}
		turned = old.Type != n.Type || old.Departing != n.Departing
		l.side(old).remove(old)
	}
	n.domain, n.zoneNumber = l.domains.enter(n.labels), l.zones.enter(n.labels)
	n.Quarantined = l.among(l.until(), n)
	if n.accepting {
		l.side(n).add(n)
	}
	l.nodes.set(n.name, n)
	l.recount(n.name)
	if known {
		l.leave(old)
		l.lost(old, n)
	}
	return turned
}

// DeleteNode forgets a node.
func (l *Ledger) DeleteNode(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, known := l.nodes.byName[name]
	if !known {
		return
	}
	l.side(old).remove(old)
	l.nodes.remove(name)
	l.recount(name)
	l.leave(old)
	l.lost(old, Node{details: &details{}})
}

// leave gives up the numbers of a node's domain and zone. No pod is counted
// there on account of this node any more.
func (l *Ledger) leave(n Node) {
	l.domains.leave(n.domain)
	l.zones.leave(n.zoneNumber)
}

func (n Node) same(m Node) bool {
	return n.Type == m.Type && n.Departing == m.Departing && n.accepting == m.accepting && maps.Equal(n.labels, m.labels)
}

// recount places the pods of a node again, after the node changed.
func (l *Ledger) recount(name string) {
	for r := range l.onNode[name] {
		l.place(r, name)
	}
}

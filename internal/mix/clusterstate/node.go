// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
)

// Node is a node as far as mixes are concerned.
type Node struct {
	Name string
	UID  types.UID
	Type capacity.Type
	// Rule is the name of the rule that decided the type, "" for an unknown one.
	Rule string
	// Domain is the interruption domain, by the configured labels.
	Domain string
	// Departing is why the node is going away, "" if it is not.
	Departing string
	// Cause is that of its departure, or of one that would begin now.
	Cause capacity.Cause
	// Notice is capacity.Notice when its departure began, or now.
	Notice string
	// Reclaimed is capacity.Reclaimed now, whatever its departure began with.
	Reclaimed bool
	// Accepting nodes take pods.
	Accepting bool
	// CPU in millicores, Memory in bytes and Pods that it has for pods.
	CPU, Memory, Pods int64
	// Offered is what it was sold as, nil where that is not kept. It is another one once that changed, and must not be changed.
	Offered *Offered
}

// same reports whether nothing changed that counts for mixes: what a node was sold as does not.
func (n Node) same(o Node) bool {
	n.Offered, o.Offered = nil, nil
	return n == o
}

// Offerings is what is kept of what nodes were sold as.
type Offerings int

// Prices of a user and of NodeOverlays can depend on any label of a node. Others need none.
const (
	NoOfferings Offerings = iota
	OfferingsWithoutLabels
	OfferingsWithLabels
)

// Offered is what a node was sold as, with the labels that its price can depend on.
type Offered struct {
	capacity.Offering
	Labels map[string]string
}

// offered returns what a node was sold as: what it was before, if that is the same. st.mu is locked to write.
func (st *State) offered(o *corev1.Node, before *Offered) *Offered {
	var labels map[string]string
	switch st.Offerings {
	case NoOfferings:
		return nil
	case OfferingsWithLabels:
		labels = o.Labels
	}
	n := &Offered{Offering: capacity.OfferingOf(o)}
	if before != nil && before.Offering == n.Offering && maps.Equal(before.Labels, labels) {
		return before
	}
	for _, text := range []*string{&n.InstanceType, &n.Region, &n.Zone} {
		*text = st.texts.one(*text)
	}
	n.Labels = st.sets.one(labels)
	return n
}

func (st *State) nodeOf(o *corev1.Node, before *Offered) Node {
	n := Node{
		Name: st.texts.one(o.Name), UID: o.UID,
		Domain: st.texts.one(capacity.Domain(o.Labels, st.SpreadSpotOver)), Accepting: capacity.Accepting(o),
	}
	n.Type, n.Rule = st.Classifier.Classify(o)
	n.Departing, _ = capacity.Departing(o)
	n.Cause, n.Notice = capacity.CauseOf(o), capacity.Notice(o)
	n.Reclaimed = capacity.Reclaimed(o)
	n.CPU, n.Memory, n.Pods = o.Status.Allocatable.Cpu().MilliValue(), o.Status.Allocatable.Memory().Value(),
		o.Status.Allocatable.Pods().Value()
	n.Offered = st.offered(o, before)
	return n
}

// Node returns a node; of one that is not known only the name is set.
func (st *State) Node(name string) Node {
	st.mu.RLock()
	defer st.mu.RUnlock()
	if n := st.nodes[name]; n != nil {
		return n.Node
	}
	return Node{Name: name}
}

// Nodes returns the known nodes, in no order.
func (st *State) Nodes() []Node {
	st.mu.RLock()
	defer st.mu.RUnlock()
	all := make([]Node, 0, len(st.nodes))
	for _, n := range st.nodes {
		if n.known {
			all = append(all, n.Node)
		}
	}
	return all
}

// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"
)

// setNodes delivers all nodes.
func (m *model) setNodes() {
	for _, n := range m.nodes {
		m.l.SetNode(m.node(n))
	}
}

func (m *model) node(name string) *corev1.Node {
	return roomy(name, func(n *corev1.Node) { n.Spec.Unschedulable = m.cordoned[name] })
}

// stranded reports whether capacity is free where its pod cannot run.
func (m *model) stranded(h modelHold) bool { return free(h) && m.cordoned[h.node] }

func (m *model) ready(r *modelReservation) (n int) {
	for _, h := range r.holds {
		if !m.stranded(h) {
			n++
		}
	}
	return n
}

// dropGone drops what is free on nodes that are gone. That releases nothing.
func (m *model) dropGone() {
	moved := m.moved
	for _, r := range m.reservations {
		m.drop(r, 0, func(h modelHold) bool { return !slices.Contains(m.nodes, h.node) })
	}
	m.moved = moved
}

// own are the Reservations whose capacity a pod may use, by node.
func (m *model) own(p *corev1.Pod) map[string]*Reservation {
	own := map[string]*Reservation{}
	if a, _ := m.l.Attempt(p, m.now); a != nil {
		for node := range a.Nodes() {
			own[node] = a.For(node, func() fwk.NodeInfo { return nil })
		}
	}
	return own
}

// heldAgain are the pods that use capacity which is held again when they are gone.
func (m *model) heldAgain() (pods []types.UID) {
	for _, r := range m.reservations {
		for _, h := range r.holds {
			if !free(h) && !r.finished(m.now) && (h.binding || !r.once()) {
				pods = append(pods, types.UID(h.pod))
			}
		}
	}
	slices.Sort(pods)
	return pods
}

func (m *model) changeNodes(t *rapid.T) {
	n := rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "node")
	if at := slices.Index(m.nodes, n); at >= 0 && rapid.Bool().Draw(t, "cordon") {
		m.cordoned[n] = !m.cordoned[n]
		m.l.SetNode(m.node(n))
		return
	} else if at >= 0 {
		m.nodes = slices.Delete(m.nodes, at, at+1)
		m.l.DeleteNode(n)
		return
	}
	m.nodes = append(m.nodes, n)
	m.l.SetNode(m.node(n))
}

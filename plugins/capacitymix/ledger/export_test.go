// SPDX-License-Identifier: Apache-2.0

package ledger

import "berth.dev/berth/internal/mix/capacity"

// Sizes returns the sizes of everything that the ledger keeps per pod, node,
// group or label value, those that are empty left out.
func (l *Ledger) Sizes() map[string]int {
	l.Node("") // publishes the table of the nodes
	l.mu.Lock()
	defer l.mu.Unlock()
	sizes := map[string]int{
		"pods": len(l.pods), "groups": len(l.groups), "pods by node": len(l.onNode), "nodes": len(l.nodes.byName),
		"domains": len(l.domains.numbers), "domain numbers in use": len(l.domains.domains) - len(l.domains.free),
		"zones": len(l.zones.numbers), "zone numbers in use": len(l.zones.domains) - len(l.zones.free),
	}
	for t := range l.sides {
		name := capacity.Type(t).String()
		sizes[name+" nodes"], sizes[name+" zones"] = len(l.sides[t].where), len(l.sides[t].zones)
	}
	for _, s := range l.nodes.flat.Load().slots {
		if s.node.details != nil {
			sizes["nodes in the table"]++
		}
	}
	for _, g := range l.groups {
		sizes["domain counts"] += len(g.domains)
		sizes["zone counts"] += len(g.zones)
	}
	for name, size := range sizes {
		if size == 0 {
			delete(sizes, name)
		}
	}
	return sizes
}

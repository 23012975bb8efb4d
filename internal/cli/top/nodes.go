// SPDX-License-Identifier: Apache-2.0

package top

import (
	"cmp"
	"fmt"
	"strings"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/overview"
)

const (
	// maxZones is how many zones of a type are named.
	maxZones = 6
	// maxZone is the length of the name of a zone.
	maxZone = 24
)

// nodes are the nodes by type and zone.
func (m *model) nodes() []string {
	groups := m.data.overview.Nodes
	if groups == nil {
		return []string{"nodes ?"}
	}
	var parts []string
	for len(groups) > 0 {
		n := 1
		for n < len(groups) && groups[n].Type == groups[0].Type {
			n++
		}
		parts = append(parts, nodesText(groups[:n]))
		groups = groups[n:]
	}
	if len(parts) == 0 {
		return []string{"no nodes"}
	}
	return pack(m.width, parts...)
}

// nodesText is "spot nodes 3 (a 2, b 1), 1 departing" for the nodes of a type.
func nodesText(zones []overview.NodeGroup) string {
	nodes, departing := 0, 0
	var names []string
	for _, z := range zones {
		nodes, departing = nodes+z.Nodes, departing+z.Departing
		if len(names) < maxZones {
			names = append(names, fmt.Sprint(display.Inert(cmp.Or(z.Zone, "no zone"), maxZone), " ", z.Nodes))
		}
	}
	if rest := len(zones) - len(names); rest > 0 {
		names = append(names, fmt.Sprintf("+%d zones", rest))
	}
	text := fmt.Sprintf("%s nodes %d (%s)", zones[0].Type, nodes, strings.Join(names, ", "))
	if departing > 0 {
		text += fmt.Sprintf(", %d departing", departing)
	}
	return text
}

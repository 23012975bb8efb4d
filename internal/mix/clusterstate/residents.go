// SPDX-License-Identifier: Apache-2.0

package clusterstate

// Residents returns a node, and how many pods run on it that neither belong to it nor end by themselves. Of a node that is not known only
// the name is set.
func (st *State) Residents(node string) (n Node, pods int) {
	st.mu.RLock()
	defer st.mu.RUnlock()
	known := st.nodes[node]
	if known == nil {
		return Node{Name: node}, 0
	}
	for _, p := range known.pods {
		if p.Live() && !p.ofNode() && !p.RunsOnce && !p.holdsRoom() && !p.Leaves() {
			pods++
		}
	}
	return known.Node, pods
}

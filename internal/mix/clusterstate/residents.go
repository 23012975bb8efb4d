// SPDX-License-Identifier: Apache-2.0

package clusterstate

// Residents returns how many pods run on a node that neither belong to it nor end by themselves, and whether the node takes pods. A node
// that is not known takes none.
func (st *State) Residents(node string) (pods int, accepting bool) {
	st.mu.RLock()
	defer st.mu.RUnlock()
	n := st.nodes[node]
	if n == nil {
		return 0, false
	}
	for _, p := range n.pods {
		if p.Live() && !p.ofNode() && !p.RunsOnce && !p.holdsRoom() {
			pods++
		}
	}
	return pods, n.Accepting
}

// SPDX-License-Identifier: Apache-2.0

package score

// maxTurns bounds the nodes whose turns are remembered: a cluster has fewer, but others come and go.
const maxTurns = 1 << 14

// turns are when nodes had their last turn. The next one is due to the candidate whose last turn was longest ago. A place in a
// fixed order would not do: pods that fit on one node only would move it, and all others would get the node after that one.
type turns struct {
	now int64
	// recent and older are the turns of nodes. What was not used in maxTurns turns is forgotten.
	recent, older map[string]int64
}

// take gives a node a turn.
func (t *turns) take(node string) {
	if t.recent == nil || len(t.recent) >= maxTurns {
		t.recent, t.older = map[string]int64{}, t.recent
	}
	t.now++
	t.recent[node] = t.now
}

// last is when a node had its last turn, 0 if it had none.
func (t *turns) last(node string) int64 {
	if at, ok := t.recent[node]; ok {
		return at
	}
	return t.older[node]
}

// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"sync"

	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/policies/decision"
)

// rejected are the nodes that filters rejected in a cycle. Filters run in parallel. Nil keeps none.
type rejected struct {
	mu    sync.Mutex
	nodes []decision.Rejected
}

func (r *rejected) add(node fwk.NodeInfo, status *fwk.Status) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes = reasonsOf(r.nodes, node, status)
}

// take returns the nodes, and keeps them no longer: a binding can take minutes.
func (r *rejected) take() []decision.Rejected {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	nodes := r.nodes
	r.nodes = nil
	return nodes
}

// reasonsOf appends the reasons for which a node is rejected.
func reasonsOf(list []decision.Rejected, node fwk.NodeInfo, status *fwk.Status) []decision.Rejected {
	for _, reason := range status.Reasons() {
		list = append(list, decision.Rejected{Node: node, Plugin: status.Plugin(), Message: reason})
	}
	return list
}

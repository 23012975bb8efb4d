// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/internal/policies/decision"
)

// Attach has a scheduler call the recorder where a plugin is not called: when an attempt fails, and when a filter rejects a node.
// It comes before the scheduler runs.
func (r *Recorder) Attach(s *scheduler.Scheduler) {
	s.FailureHandler = r.Handler(s.FailureHandler)
	for name, f := range s.Profiles {
		s.Profiles[name] = observed{f}
	}
}

// observed is a profile whose rejections are noted in the cycles of pods that request it. The framework returns them for a pod
// that has no node only.
type observed struct{ framework.Framework }

// RunFilterPluginsWithNominatedPods implements framework.Framework.
func (o observed) RunFilterPluginsWithNominatedPods(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo,
) *fwk.Status {
	status := o.Framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, info)
	if status.IsRejected() {
		if c := read(state); c != nil {
			c.rejected.add(info, status)
		}
	}
	return status
}

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

// SPDX-License-Identifier: Apache-2.0

package overview_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/overview"
)

// The sentence names all that a workload lacks, and what the scheduler reported.
func TestASentenceSaysWhyAWorkloadIsOffItsMix(t *testing.T) {
	for want, of := range map[string]struct {
		replicas int32
		nodes    []string
		reason   string
	}{
		"2 of 4 replicas run on the wrong type.":                                                          {4, []string{"o1", "o1", "o1", "o1"}, "WrongType"},
		"1 of 2 replicas runs on a node of unknown type.":                                                 {2, []string{"o1", "x"}, "WrongType"},
		"1 of 2 replicas waits for a node (0/3 nodes are available: Insufficient cpu).":                   {2, []string{"o1", ""}, "Pending"},
		"3 of 4 replicas have no pod yet.":                                                                {4, []string{"o1"}, "Pending"},
		"1 of 2 replicas runs on a node that departs.":                                                    {2, []string{"o1", "s2"}, "Departing"},
		"1 of 4 replicas runs on the wrong type, 1 runs on a node that departs.":                          {4, []string{"o1", "o1", "o1", "s2"}, "WrongType"},
		"1 of 3 replicas waits for a node (0/3 nodes are available: Insufficient cpu), 1 has no pod yet.": {3, []string{"o1", ""}, "Pending"},
	} {
		s := &shop{}
		s.node("s1", "spot", "a")
		s.node("s2", "spot", "b", departing)
		s.node("o1", "on-demand", "a")
		s.node("x", "", "b")
		s.mix("shop", "web", 50, 1)
		s.workload("shop", "web", of.replicas, of.nodes...)
		for _, p := range s.pods {
			if p.Spec.NodeName == "" {
				p.Status.Conditions = []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available: Insufficient cpu.",
				}}
			}
		}
		w := overview.Of(s.input(t)).Workloads[0]
		assert.Equal(t, want, w.Message)
		assert.Equal(t, of.reason, w.Reason, want)
		assert.Equal(t, w.Message, w.Why())
	}
	w := overview.Of(oneOfEach().input(t)).Workloads[0]
	assert.Equal(t, "InsufficientCapacity: no spot node has free capacity", w.Why(), "the controller's reason is not in its message")
}

// The console and `top` show the overview, `status` the status: they give one reason.
func TestStatusAndOverviewGiveTheSameReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawShop(t).input(t)
		status := overview.StatusOf(&overview.Cluster{State: in.State, Pods: in.Pods, Nodes: in.Nodes, Mixes: in.Mixes}, "")
		sentences := map[string]string{}
		for _, w := range status.Workloads {
			sentences[w.Namespace+"/"+w.Name+w.Revision] = w.State + " " + w.Message
		}
		for _, w := range overview.Of(in).Workloads {
			if w.Satisfied.Is(true) {
				continue
			}
			require.Equal(t, sentences[w.Namespace+"/"+w.Name+w.Revision], w.Reason+" "+w.Message)
			require.NotEmpty(t, w.Why())
		}
	})
}

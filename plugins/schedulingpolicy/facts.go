// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/policies/score"
	"berth.dev/berth/plugins/capacitymix"
	"berth.dev/berth/plugins/internal/taints"
)

// attempt is what the facts of nodes are read from.
type attempt struct {
	pl       *SchedulingPolicy
	state    fwk.CycleState
	governor *governor
	pod      *corev1.Pod
	// near and apartFrom are the preferences of the pod for other pods and against them.
	near, apartFrom []fwk.WeightedAffinityTerm
	// nodes are the feasible nodes, all those of the cluster.
	nodes, all []fwk.NodeInfo
	table      *table
	// namespaces are the labels of namespaces that were read.
	namespaces map[string]labels.Set
}

// score returns the facts and the scores of nodes.
func (pl *SchedulingPolicy) score(state fwk.CycleState, g *governor, pod *corev1.Pod, nodes []fwk.NodeInfo,
) (*table, error) {
	all, err := pl.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, err
	}
	pl.nodes.Store(int64(len(all)))
	a := &attempt{pl: pl, state: state, governor: g, pod: pod, nodes: nodes, all: all, table: &table{
		facts: make([]score.Facts, len(nodes)), candidates: make([]score.Candidate, len(nodes)),
	}}
	if err := a.parse(); err != nil {
		return nil, err
	}
	a.utilization()
	a.gather()
	a.demote()
	for i := range nodes {
		f := &a.table.facts[i]
		c := &a.table.candidates[i]
		c.Node, c.Load, c.Affinity = nodes[i].Node().Name, f.Load(), f.Affinity()
		c.Score = score.Sum(g.rules.Functions, f, a.table.most)
	}
	return a.table, nil
}

// gather reads the facts that the functions and the strategy of the rules need.
func (a *attempt) gather() {
	r := a.governor.rules
	if r.Has(v1alpha1.ScoreSpreading) {
		a.countSiblings()
	}
	if r.NeedsAffinity() {
		a.preferred()
	}
	if r.Has(v1alpha1.ScoreAntiAffinity) {
		a.apart()
	}
	if r.Has(v1alpha1.ScoreTopologySpread) {
		a.constraints()
	}
}

// utilization is that of nodes with the pod. Containers without requests count as the scheduler counts them for spreading: a
// pod without requests would otherwise change nothing.
func (a *attempt) utilization() {
	cpu, memory := requestsOf(a.pl.admission, a.pod)
	for i, n := range a.nodes {
		allocatable, used := n.GetAllocatable(), n.GetNonZeroRequested()
		a.table.facts[i].CPU = score.Utilization(budget.Add(used.GetMilliCPU(), cpu), allocatable.GetMilliCPU())
		a.table.facts[i].Memory = score.Utilization(budget.Add(used.GetMemory(), memory), allocatable.GetMemory())
	}
}

// demote marks nodes that rank below all others: those of the other capacity type than that of the pod's slot, and those with
// a taint by which pods avoid them. A cluster autoscaler puts such a taint on nodes that it is about to remove.
func (a *attempt) demote() {
	other := capacitymix.OtherType(a.state)
	for i, n := range a.nodes {
		node := n.Node()
		reason := ""
		if other != nil && other(node.Name) {
			reason = "the node has the other capacity type"
		} else if taint, found := taints.Untolerated(node, a.pod, taints.Deters); found {
			reason = "the node has the taint " + taint.Key + ":PreferNoSchedule"
		}
		if reason == "" {
			continue
		}
		if a.table.demoted == nil {
			a.table.demoted = map[string]string{}
		}
		a.table.demoted[node.Name] = reason
		a.table.candidates[i].Demoted = true
	}
}

// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/policies/score"
	"berth.dev/berth/plugins/capacitymix"
)

// group identifies pods that are siblings: those of one controller or, without one, those that one policy governs. The zero
// value is that of pods without siblings.
type group struct {
	namespace  string
	controller types.UID
	policy     string
}

// siblings counts the pods of all groups by node. A node is counted again when its generation has changed, so that a pod does
// not cost a visit of every pod of the cluster. Its memory is in proportion to the pods that run. Used by one scheduling cycle
// at a time.
type siblings struct {
	// list is that of the last snapshot: the scheduler keeps it while no node comes or goes.
	list  []fwk.NodeInfo
	nodes []nodeCounts
	index map[string]int32
	// groups are those that have pods.
	groups map[group]*members
	// bare are the nodes that have pods without a controller, by namespace, and versions those of the namespace's policies by
	// which these pods were counted.
	bare     map[string]map[int32]struct{}
	versions map[string]int64
}

// nodeCounts is what was counted on a node, which had a generation then.
type nodeCounts struct {
	generation int64
	labels     map[string]string
	// groups are those that have pods on the node, bare the namespaces that have pods without a controller there.
	groups []*members
	bare   []string
}

// members are the numbers of pods of a group by node.
type members struct {
	group group
	on    map[int32]int32
}

func newSiblings() *siblings { return &siblings{groups: map[group]*members{}} }

// notCounted is the generation of a node that is to be counted: the scheduler's begin at 1.
const notCounted = -1

// count returns the members of a group, nil if it has none. groupOf returns the group of a pod; its result for pods without a
// controller depends on the version, that of the policies of the group's namespace. When this changes, only the nodes with such
// pods of the namespace are counted again.
func (s *siblings) count(g group, nodes []fwk.NodeInfo, version int64, groupOf func(*corev1.Pod) group) *members {
	if len(nodes) != len(s.list) || len(nodes) > 0 && &nodes[0] != &s.list[0] {
		s.reset(nodes)
	}
	if g.controller == "" && s.versions[g.namespace] != version {
		s.versions[g.namespace] = version
		for i := range s.bare[g.namespace] {
			s.nodes[i].generation = notCounted
		}
	}
	for i, n := range nodes {
		if generation := n.GetGeneration(); s.nodes[i].generation != generation {
			s.recount(int32(i), n, generation, groupOf)
		}
	}
	return s.groups[g]
}

// reset forgets all counts.
func (s *siblings) reset(nodes []fwk.NodeInfo) {
	s.list = nodes
	s.bare, s.versions = map[string]map[int32]struct{}{}, map[string]int64{}
	s.nodes, s.index, s.groups = make([]nodeCounts, len(nodes)), make(map[string]int32, len(nodes)), map[group]*members{}
	for i, n := range nodes {
		s.index[n.Node().Name] = int32(i)
	}
}

// recount counts the pods on a node that are not being deleted.
func (s *siblings) recount(i int32, n fwk.NodeInfo, generation int64, groupOf func(*corev1.Pod) group) {
	node := &s.nodes[i]
	for _, m := range node.groups {
		if delete(m.on, i); len(m.on) == 0 {
			delete(s.groups, m.group)
		}
	}
	for _, namespace := range node.bare {
		if delete(s.bare[namespace], i); len(s.bare[namespace]) == 0 {
			delete(s.bare, namespace)
		}
	}
	node.generation, node.labels, node.groups, node.bare = generation, n.Node().Labels, node.groups[:0], node.bare[:0]
	for _, p := range n.GetPods() {
		pod := p.GetPod()
		if pod.DeletionTimestamp != nil {
			continue
		}
		if metav1.GetControllerOfNoCopy(pod) == nil {
			s.addBare(i, node, pod.Namespace)
		}
		g := groupOf(pod)
		if g == (group{}) {
			continue
		}
		m := s.groups[g]
		if m == nil {
			m = &members{group: g, on: map[int32]int32{}}
			s.groups[g] = m
		}
		if m.on[i]++; m.on[i] == 1 {
			node.groups = append(node.groups, m)
		}
	}
}

// addBare notes that a node has pods of a namespace without a controller.
func (s *siblings) addBare(i int32, node *nodeCounts, namespace string) {
	on := s.bare[namespace]
	if on == nil {
		on = map[int32]struct{}{}
		s.bare[namespace] = on
	}
	if _, has := on[i]; !has {
		on[i] = struct{}{}
		node.bare = append(node.bare, namespace)
	}
}

// groupOf returns the group of a pod.
func (pl *SchedulingPolicy) groupOf(pod *corev1.Pod) group {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return group{namespace: pod.Namespace, controller: owner.UID}
	}
	if g := pl.governorOf(pod); g != nil {
		return group{namespace: pod.Namespace, policy: g.key}
	}
	return group{}
}

// countSiblings reads how many siblings run on each node, in its zone and in its failure domain. Nodes without a label are in
// one domain, that of the empty value.
func (a *attempt) countSiblings() {
	g := a.pl.groupOf(a.pod)
	// With a mix the pods of a controller are counted already, and only a few nodes are scored: the snapshot, which is read as a
	// whole, would cost as much as the rest of the cycle. Pods without a controller are grouped by their mix there, and not by
	// their policy.
	if g.controller != "" && a.countInLedger() {
		return
	}
	a.countInSnapshot(g)
}

// countInLedger takes the counts from CapacityMix. It returns false for pods without a mix.
func (a *attempt) countInLedger() bool {
	around, most, ok := capacitymix.Siblings(a.state, a.governor.rules.FailureDomainKey, a.nodes)
	if !ok {
		return false
	}
	a.table.most = score.Most(most)
	for i, n := range around {
		f := &a.table.facts[i]
		f.OnNode, f.InZone, f.InDomain = n.OnNode, n.InZone, n.InDomain
	}
	return true
}

// countInSnapshot counts the pods of a group on all nodes.
func (a *attempt) countInSnapshot(g group) {
	s := a.pl.siblings
	m := s.count(g, a.all, a.pl.version(g.namespace), a.pl.groupOf)
	if m == nil {
		return
	}
	key := a.governor.rules.FailureDomainKey
	zones, domains := map[string]int{}, map[string]int{}
	most := score.Most{}
	for i, n := range m.on {
		labels := s.nodes[i].labels
		most.OnNode = max(most.OnNode, int(n))
		most.InZone = max(most.InZone, add(zones, labels[corev1.LabelTopologyZone], int(n)))
		most.InDomain = max(most.InDomain, add(domains, labels[key], int(n)))
	}
	a.table.most = most
	for i, n := range a.nodes {
		node, f := n.Node(), &a.table.facts[i]
		if at, known := s.index[node.Name]; known {
			f.OnNode = int(m.on[at])
		}
		f.InZone, f.InDomain = zones[node.Labels[corev1.LabelTopologyZone]], domains[node.Labels[key]]
	}
}

// add adds to the count of a domain and returns the sum.
func add(counts map[string]int, domain string, n int) int {
	counts[domain] += n
	return counts[domain]
}

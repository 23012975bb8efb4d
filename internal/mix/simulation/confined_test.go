// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/domains"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/placeholder"
)

// limitedGroup is the group of some pods, alone or in units of the same name, of which a zone has at most some.
func limitedGroup(most int32, units map[string]string, pods ...*corev1.Pod) *clusterstate.Group {
	g := &clusterstate.Group{
		Replicas:  len(pods),
		Governing: &governing.Mix{MaxPerDomain: []domains.Limit{{Key: corev1.LabelTopologyZone, Count: most}}},
	}
	of := map[string]int{}
	for _, p := range pods {
		record := &clusterstate.Pod{Name: p.Name, UID: p.UID}
		unit := units[p.Name]
		if at, there := of[unit]; there && unit != "" {
			g.Assignments[at].Pods = append(g.Assignments[at].Pods, record)
			continue
		}
		of[unit] = len(g.Assignments)
		a := clusterstate.Assignment{Pod: record, Unit: unit}
		if unit != "" {
			a.Pods = []*clusterstate.Pod{record}
		}
		g.Assignments = append(g.Assignments, a)
	}
	return g
}

func TestAMoveKeepsToTheLimitOfADomain(t *testing.T) {
	nodes := []*corev1.Node{zoned("spot-a", "a", "spot"), zoned("od-a", "a", "on-demand"), zoned("od-b", "b", "on-demand")}
	replica := pod("web0", "spot-a")
	question := func(g *clusterstate.Group) Question {
		return Question{Pod: replica, Gone: []types.UID{replica.UID}, Nodes: onDemandNodes, Confined: ConfinedBy(g)}
	}
	other := pod("web1", "od-a")
	s := snapshot(t, DefaultProfile(), nodes, []*corev1.Pod{replica, other})
	answer := ask(t, s, question(limitedGroup(2, nil, replica, other)))
	assert.Equal(t, "od-a", answer.Node, "the replica that is evicted does not count")
	surge := question(limitedGroup(2, nil, replica, other))
	surge.Gone = nil
	assert.Equal(t, "od-a", ask(t, s, surge).Node, "nor does one that is released, which stays until its replacement runs")
	answer = ask(t, s, question(limitedGroup(1, nil, replica, other)))
	assert.Equal(t, "od-b", answer.Node)
	assert.Equal(t, 1, answer.Reasons["node(s) are in a full domain: 1 of at most 1 replica is in a"])

	stranger := ask(t, s, question(limitedGroup(1, nil, replica)))
	assert.Equal(t, "od-a", stranger.Node, "a pod of another group does not count")
	q := question(limitedGroup(1, nil, replica, other))
	q.Gone = append(q.Gone, other.UID)
	assert.Equal(t, "od-a", ask(t, s, q).Node, "nor does one that moves as well")

	s = snapshot(t, DefaultProfile(), []*corev1.Node{nodes[0], node("od", "100", func(n *corev1.Node) {
		n.Labels["karpenter.sh/capacity-type"] = "on-demand"
	})}, []*corev1.Pod{replica})
	assert.False(t, ask(t, s, question(limitedGroup(2, nil, replica))).Fits, "a node without the label is in no domain")
}

func TestTheReplacementOfAUnitCountsOnce(t *testing.T) {
	nodes := []*corev1.Node{zoned("spot-a", "a", "spot"), zoned("od-a", "a", "on-demand"), zoned("od-b", "b", "on-demand")}
	members := []*corev1.Pod{pod("u0", "spot-a"), pod("u1", "spot-a")}
	other := pod("v0", "od-b")
	g := limitedGroup(1, map[string]string{"u0": "u", "u1": "u", "v0": "v"}, append(members, other)...)
	s := snapshot(t, DefaultProfile(), nodes, append(members, other))
	var all []Question
	for i, m := range members {
		next := pod(fmt.Sprint("next", i), "") // as the API server admits it, with a UID of its own
		all = append(all, Question{Pod: m, Next: next, Gone: []types.UID{"u0", "u1"}, Nodes: onDemandNodes, Confined: ConfinedBy(g)})
	}
	answers, err := s.FitAll(t.Context(), all)
	require.NoError(t, err)
	require.Len(t, answers, 2)
	assert.Equal(t, "od-a", answers[0].Node)
	assert.Equal(t, "od-a", answers[1].Node, "the other one of the unit is there")

	alone := limitedGroup(1, nil, append(members, other)...)
	for i := range all {
		all[i].Confined = ConfinedBy(alone)
	}
	answers, err = s.FitAll(t.Context(), all)
	require.NoError(t, err)
	require.Len(t, answers, 2)
	assert.True(t, answers[0].Fits)
	assert.False(t, answers[1].Fits, "of replicas on their own, the first fills the zone")
}

func TestAnAssumedReplacementCountsInItsDomain(t *testing.T) {
	nodes := []*corev1.Node{zoned("spot-b", "b", "spot"), zoned("od-a", "a", "on-demand"), zoned("od-b", "b", "on-demand")}
	first, second := pod("web0", "spot-b"), pod("web1", "spot-b")
	s := snapshot(t, DefaultProfile(), nodes, []*corev1.Pod{first, second})
	confined := ConfinedBy(limitedGroup(1, nil, first, second))
	gone := []types.UID{first.UID}
	answer := ask(t, s, Question{Pod: first, Gone: gone, Nodes: onDemandNodes, Confined: confined})
	require.Equal(t, "od-a", answer.Node)
	s.Assume(first, answer.Node)
	answer = ask(t, s, Question{Pod: second, Gone: append(gone, second.UID), Nodes: onDemandNodes, Confined: confined})
	assert.Equal(t, "od-b", answer.Node)
}

func TestAPlaceholderIsLimitedToDomainsThatAreNotFull(t *testing.T) {
	const zone = corev1.LabelTopologyZone
	nodes := []*corev1.Node{zoned("spot-a", "a", "spot"), zoned("spot-b", "b", "spot"), zoned("od-c", "c", "on-demand")}
	replica, other, moving := pod("web0", "spot-a"), pod("web1", "spot-b"), pod("web2", "spot-b")
	held := pod("held", "od-c", func(p *corev1.Pod) { p.Labels = nil })
	s := snapshot(t, DefaultProfile(), nodes, []*corev1.Pod{replica, other, moving, held})
	next := replica.DeepCopy()
	next.UID = "next"
	d := s.Domains(Question{
		Pod: next, Gone: []types.UID{replica.UID}, Nodes: onDemandNodes, Wants: capacity.OnDemand,
		Confined: ConfinedBy(limitedGroup(1, nil, replica, other, moving)),
	}, Holder{Replica: replica.UID, Labels: placeholder.Labels(replica.UID, nil)}, []Holder{{UID: "held", Replica: moving.UID}})
	assert.Equal(t, []corev1.NodeSelectorRequirement{{Key: zone, Operator: corev1.NodeSelectorOpExists}, notIn(zone, "b", "c")}, d.Requirements,
		"zone a has room once the replica is gone, and the placeholder of another one holds a place in c")
}

// The requirements that the gate wrote are those of one pod.
func TestAReplacementHasNoDomainsOfItsPredecessor(t *testing.T) {
	nodes := []*corev1.Node{zoned("od-a", "a", "on-demand"), zoned("spot-b", "b", "spot")}
	replica := pod("web0", "spot-b", func(p *corev1.Pod) {
		p.Annotations = map[string]string{"berth.dev/claim": "web0/spot", "berth.dev/domain-requirements": "2"}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpExists}, notIn(corev1.LabelTopologyZone, "a")},
			}}},
		}}
	})
	s := snapshot(t, DefaultProfile(), nodes, []*corev1.Pod{replica})
	answer := ask(t, s, Question{Pod: replica, Gone: []types.UID{replica.UID}, Nodes: onDemandNodes, Wants: capacity.OnDemand})
	assert.Equal(t, "od-a", answer.Node, answer.Message())
}

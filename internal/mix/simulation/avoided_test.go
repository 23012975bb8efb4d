// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/internal/mix/placeholder"
)

func spotNodes(n *corev1.Node) bool { return n.Labels["karpenter.sh/capacity-type"] == "spot" }

// inQuarantine has zones in quarantine, until some time.
func inQuarantine(zones ...string) *interruptions.Quarantine {
	q := &interruptions.Quarantine{Keys: []string{corev1.LabelTopologyZone}, Until: map[string]time.Time{}}
	for _, zone := range zones {
		q.Until[zone] = time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC)
	}
	return q
}

func TestAMoveAvoidsDomainsInQuarantine(t *testing.T) {
	cordoned := zoned("spot-c", "c", "spot")
	cordoned.Spec.Unschedulable = true
	nodes := []*corev1.Node{zoned("od-a", "a", "on-demand"), zoned("spot-a", "a", "spot"), zoned("spot-b", "b", "spot"), cordoned}
	replica := pod("web0", "od-a")
	s := snapshot(t, DefaultProfile(), nodes, []*corev1.Pod{replica})
	question := func(q *interruptions.Quarantine) Question {
		return Question{Pod: replica, Gone: []types.UID{replica.UID}, Nodes: spotNodes, Wants: capacity.Spot, Quarantine: q}
	}
	assert.Equal(t, "spot-a", ask(t, s, question(nil)).Node)
	answer := ask(t, s, question(inQuarantine("a")))
	assert.Equal(t, "spot-b", answer.Node)
	assert.Equal(t, 1, answer.Reasons["node(s) are in interruption domain a, which is in quarantine until 2100-01-02T03:04:05Z"])
	assert.Equal(t, "spot-a", ask(t, s, question(inQuarantine("a", "b"))).Node, "no other node takes pods")
	large := replica.DeepCopy()
	large.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
	nodes[1].Status.Allocatable["example.com/gpu"] = resource.MustParse("1")
	withGPU := question(inQuarantine("a"))
	withGPU.Next = large
	assert.Equal(t, "spot-a", ask(t, snapshot(t, DefaultProfile(), nodes, []*corev1.Pod{replica}), withGPU).Node, "the other one has no GPU")

	onDemand := question(inQuarantine("a"))
	onDemand.Wants, onDemand.Nodes = capacity.OnDemand, onDemandNodes
	assert.Equal(t, "od-a", ask(t, s, onDemand).Node, "a quarantine is of spot nodes")

	selects := replica.DeepCopy()
	selects.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "a"}
	q := question(inQuarantine("a"))
	q.Next = selects
	assert.Equal(t, "spot-a", ask(t, s, q).Node, "it can use no other domain")

	gated := replica.DeepCopy()
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "berth.dev/capacity-mix"}}
	q.Next = gated
	assert.Equal(t, "spot-b", ask(t, s, q).Node, "its node affinity will exclude the domain")
	gated = gated.DeepCopy()
	gated.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpExists}},
		}}},
	}}
	q.Next = gated
	assert.Equal(t, "spot-a", ask(t, s, q).Node, "it has one, to which no terms are added")

	limited := question(inQuarantine("a"))
	limited.Confined = ConfinedBy(limitedGroup(1, nil, replica, pod("web1", "spot-b")))
	s = snapshot(t, DefaultProfile(), nodes, []*corev1.Pod{replica, pod("web1", "spot-b")})
	assert.Equal(t, "spot-a", ask(t, s, limited).Node, "the other domain is full")
}

func TestAReplacementThatAvoidsDomainsHasNoPlaceholder(t *testing.T) {
	nodes := []*corev1.Node{zoned("od-a", "a", "on-demand"), zoned("spot-a", "a", "spot"), zoned("spot-b", "b", "spot")}
	replica, held := pod("web0", "od-a"), pod("held", "spot-a", func(p *corev1.Pod) { p.Labels = nil })
	s := snapshot(t, DefaultProfile(), nodes, []*corev1.Pod{replica, held})
	domains := func(q *interruptions.Quarantine) Domains {
		return s.Domains(Question{
			Pod: replica, Gone: []types.UID{replica.UID}, Nodes: spotNodes, Wants: capacity.Spot, Quarantine: q,
		}, Holder{UID: "held", Replica: replica.UID, Labels: placeholder.Labels(replica.UID, nil)}, nil)
	}
	assert.Empty(t, domains(nil).Unable)
	assert.False(t, domains(nil).Outside)
	d := domains(inQuarantine("a"))
	assert.Equal(t, "the replacement avoids 1 interruption domain in quarantine, and a placeholder cannot", d.Unable)
	assert.True(t, d.Outside, "one that runs there is of no use")
	assert.False(t, domains(inQuarantine("b")).Outside)
}

// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/domains"
	"berth.dev/berth/internal/mix/governing"
)

func TestAnExplanationHasHowFullTheDomainsAre(t *testing.T) {
	c, g := &Cluster{}, &clusterstate.Group{Replicas: 12, Governing: &governing.Mix{MaxPerDomain: []domains.Limit{
		{Key: "zone", Percent: 10}, {Key: "host", Count: 2, Soft: true},
	}}}
	for i := range 12 {
		name := fmt.Sprint("n", i)
		c.Nodes = append(c.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": fmt.Sprintf("z%02d", i), "host": name}}})
		p := &clusterstate.Pod{Name: name, Node: name}
		if i == 11 {
			p.Node = ""
		}
		g.Assignments = append(g.Assignments, clusterstate.Assignment{Pod: p})
	}
	of := func(i int) []DomainFacts {
		e := &explainer{PodQuestion: PodQuestion{Cluster: c}, record: g.Assignments[i].Pod}
		return e.domainFacts(g, &g.Assignments[i])
	}
	bound := of(0)
	assert.Equal(t, DomainFacts{
		TopologyKey: "zone", Limit: "at most 10% of the replicas in one zone", Max: 1, Domain: "z00", Replicas: 1,
		Full: []string{"z00", "z01", "z02", "z03", "z04", "z05", "z06", "z07"}, FullCount: 11,
	}, bound[0])
	assert.Equal(t, "at most 10% of the replicas in one zone (1 now); z00 has 1; 11 domains are full: z00, z01, z02, z03, z04, z05, z06, z07, …",
		bound[0].String())
	assert.Equal(t, "preferably at most 2 replicas in one host (2 now); n0 has 1; no domain is full", bound[1].String())
	assert.Equal(t, "preferably at most 2 replicas in one host (2 now); no domain is full", of(11)[1].String(), "a pod without a node")

	held := &Explanation{Governed: true, Gate: &GateFacts{State: gateWaiting}, Domains: bound}
	assert.NotContains(t, held.reason()[0], "domains", "no pod without a gate waits for a node")
	g.Assignments[11].Pod.LimitedTo = capacity.OnDemand
	held.Domains = of(10)[:1]
	assert.Contains(t, held.reason()[0], "could fill the domains of the pod")
	held.Domains = of(10)[1:]
	assert.NotContains(t, held.reason()[0], "domains", "a preference holds no pod")
	g.Assignments[10].Pod.OtherGates = true
	held.Domains = of(10)
	assert.NotContains(t, held.reason()[0], "domains", "it waits for another gate")

	c.Problems = []Problem{{Resource: "nodes"}}
	assert.Empty(t, of(0), "unknown without the nodes")
	g.Governing.MaxPerDomain = nil
	assert.Empty(t, of(0))
}

// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// spreadOver is a pod of app web that is spread over zones with a skew of one.
func spreadOver() *corev1.Pod {
	p := pod("next", "")
	p.Labels = map[string]string{"app": "web", "revision": "2"}
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}}
	return p
}

// zones is a state with a node for each zone, of the same name, that has so many pods of app web.
func zones(t *testing.T, webs map[string]int) *state {
	t.Helper()
	var nodes []*corev1.Node
	var pods []*corev1.Pod
	for zone, n := range webs {
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: zone, Labels: map[string]string{corev1.LabelTopologyZone: zone}}})
		for i := range n {
			p := pod(zone+string(rune('0'+i)), zone)
			p.Labels = map[string]string{"app": "web", "revision": "1"}
			pods = append(pods, p)
		}
	}
	return stateOf(t, nodes, pods)
}

func TestDomainsThatASpreadConstraintForbidsAreClosed(t *testing.T) {
	for name, c := range map[string]struct {
		webs    map[string]int
		without []types.UID
		change  func(*corev1.Pod)
		held    map[string]int
		want    []string
	}{
		"as many in each":               {webs: map[string]int{"a": 2, "b": 2}},
		"one zone has more":             {webs: map[string]int{"a": 3, "b": 2}, want: []string{"a"}},
		"the replica counts no more":    {webs: map[string]int{"a": 2, "b": 2}, without: []types.UID{"a0"}, want: []string{"b"}},
		"a placeholder counts":          {webs: map[string]int{"a": 2, "b": 2}, held: map[string]int{"b": 1}, want: []string{"b"}},
		"no zone":                       {},
		"the label keys of the replica": {webs: map[string]int{"a": 3, "b": 2}, change: func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints[0].MatchLabelKeys = []string{"revision"} }},
		"too few domains":               {webs: map[string]int{"a": 1, "b": 1}, change: func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints[0].MinDomains = new(int32(3)) }, want: []string{"a", "b"}},
		"a zone that the replica may not use": {
			webs:   map[string]int{"a": 3, "b": 2},
			change: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "a"} },
		},
		"it does not select itself": {webs: map[string]int{"a": 3, "b": 2}, change: func(p *corev1.Pod) { p.Labels = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			gone := map[types.UID]bool{}
			for _, uid := range c.without {
				gone[uid] = true
			}
			s, next := zones(t, c.webs).without(gone), spreadOver()
			if c.change != nil {
				c.change(next)
			}
			held := make([]int, len(s.nodes))
			for zone, n := range c.held {
				held[s.position[zone]] = n
			}
			got := closedBy(&next.Spec.TopologySpreadConstraints[0], next, s.nodes, held)
			assert.Len(t, got, len(c.want))
			for _, zone := range c.want {
				assert.True(t, got[zone], zone)
			}
		})
	}
}

// The zones that are closed are exactly those whose nodes the plugin rejects.
func TestClosedDomainsAreThoseThatThePluginRejects(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var nodes []*corev1.Node
		var pods []*corev1.Pod
		for _, zone := range []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(rt, "zones")] {
			nodes = append(nodes, node(zone, "9", func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = zone }))
			for i := range rapid.IntRange(0, 4).Draw(rt, zone) {
				p := pod(zone+string(rune('0'+i)), zone)
				p.Labels = map[string]string{"app": rapid.SampledFrom([]string{"web", "web", "db"}).Draw(rt, "app")}
				pods = append(pods, p)
			}
		}
		next := spreadOver()
		next.Spec.TopologySpreadConstraints[0].MaxSkew = rapid.Int32Range(1, 2).Draw(rt, "skew")
		s := snapshot(t, DefaultProfile(), nodes, pods)
		closed := closedBy(&next.Spec.TopologySpreadConstraints[0], next, s.base.nodes, make([]int, len(s.base.nodes)))
		for _, n := range nodes {
			a := ask(t, s, Question{Pod: next, Nodes: func(o *corev1.Node) bool { return o.Name == n.Name }})
			if a.Fits == closed[n.Name] {
				rt.Fatalf("zone %s is closed: %v, and the filters say %q", n.Name, closed[n.Name], a.Message())
			}
		}
	})
}

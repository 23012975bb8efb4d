// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/placeholder"
)

// zoned is a node of a type in a zone.
func zoned(name, zone, capacityType string) *corev1.Node {
	return node(name, "100", func(n *corev1.Node) {
		n.Labels[corev1.LabelTopologyZone], n.Labels["karpenter.sh/capacity-type"] = zone, capacityType
	})
}

func labeled(app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{"app": app} }
}

// selecting is a required term for the pods of an app.
func selecting(key, app string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
}

func near(terms ...corev1.PodAffinityTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		affinityOf(p).PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	}
}

func apart(terms ...corev1.PodAffinityTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		affinityOf(p).PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	}
}

func affinityOf(p *corev1.Pod) *corev1.Affinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	return p.Spec.Affinity
}

// onDemandNodes are the candidates of the tests, for a replica on spot.
func onDemandNodes(n *corev1.Node) bool { return n.Labels["karpenter.sh/capacity-type"] == "on-demand" }

// domainsFor are those for the placeholder of a replica.
func domainsFor(s *Snapshot, replica, next *corev1.Pod, others ...Holder) (Domains, *corev1.Pod) {
	d := s.Domains(Question{Pod: replica, Next: next, Gone: []types.UID{replica.UID}, Nodes: onDemandNodes, Wants: capacity.OnDemand},
		Holder{Replica: replica.UID, Labels: placeholder.Labels(replica.UID, nil)}, others)
	held := placeholder.Pod(placeholder.Assignment{
		Replica: replica, Next: next, Type: capacity.OnDemand, Label: DefaultProfile().Label,
		Domains: d.Requirements, DropAffinity: d.Affinity, DropAntiAffinity: d.AntiAffinity,
	}, "pause")
	return d, held
}

func notIn(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpNotIn, Values: values}
}

func TestAPlaceholderIsLimitedToTheDomainsOfItsReplacement(t *testing.T) {
	const zone, host = corev1.LabelTopologyZone, corev1.LabelHostname
	nodes := []*corev1.Node{zoned("spot-a", "a", "spot"), zoned("spot-b", "b", "spot"), zoned("spot-c", "c", "spot"), zoned("od-b", "b", "on-demand")}
	all := func(app string) []*corev1.Pod {
		return []*corev1.Pod{pod(app+"1", "spot-b", labeled(app)), pod(app+"2", "spot-c", labeled(app))}
	}
	none := labeled("web")
	everyone := apart(corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: &metav1.LabelSelector{}})
	for name, c := range map[string]struct {
		web    func(*corev1.Pod) // the replica in zone a and its replacement
		pods   []*corev1.Pod
		others []Holder
		want   []corev1.NodeSelectorRequirement
		drops  string
		unable string
	}{
		"its own anti-affinity, a replica in each zone": {
			web: apart(selecting(zone, "web")), pods: all("web"), want: []corev1.NodeSelectorRequirement{notIn(zone, "b", "c")}, drops: "anti-affinity [0]",
		},
		"its own anti-affinity over hosts": {web: apart(selecting(host, "web")), pods: all("web")},
		"its anti-affinity to others":      {web: apart(selecting(zone, "db")), pods: all("db")},
		"two terms, of which one is decided by the replica": {
			web: apart(selecting(zone, "db"), selecting(zone, "web")), pods: all("web"),
			want: []corev1.NodeSelectorRequirement{notIn(zone, "b", "c")}, drops: "anti-affinity [1]",
		},
		"another placeholder of the workload": {
			web: apart(selecting(zone, "web")), pods: []*corev1.Pod{pod("web1", "spot-b", none), pod("held", "od-b", labeled(""))},
			others: []Holder{{UID: "held", Replica: "web1"}},
			want:   []corev1.NodeSelectorRequirement{notIn(zone, "b"), notIn(zone, "b")}, drops: "anti-affinity [0]",
		},
		"the anti-affinity of another workload": {
			web: none, pods: []*corev1.Pod{pod("db1", "spot-c", labeled("db"), apart(selecting(zone, "web")))},
			want: []corev1.NodeSelectorRequirement{notIn(zone, "c")},
		},
		"the anti-affinity of another workload over hosts": {
			web: none, want: []corev1.NodeSelectorRequirement{notIn(host, "od-b")}, pods: []*corev1.Pod{
				pod("db1", "spot-c", labeled("db"), apart(selecting(host, "web"))), pod("db2", "od-b", labeled("db"), apart(selecting(host, "web"))),
			},
		},
		"affinity to itself, with others": {
			web: near(selecting(zone, "web")), pods: all("web"), drops: "affinity",
			want: []corev1.NodeSelectorRequirement{{Key: zone, Operator: corev1.NodeSelectorOpIn, Values: []string{"b", "c"}}},
		},
		"affinity to itself, alone": {
			web: near(selecting(zone, "web")), drops: "affinity",
			want: []corev1.NodeSelectorRequirement{{Key: zone, Operator: corev1.NodeSelectorOpExists}},
		},
		"affinity to itself over hosts, with others": {web: near(selecting(host, "web")), pods: all("web")},
		"affinity to others":                         {web: near(selecting(zone, "db")), pods: all("db")},
		"affinity to a pod that does not exist":      {web: near(selecting(zone, "db")), unable: "no pod matches"},
		"affinity to a pod that has no rack":         {web: near(selecting(zone, "web"), selecting("rack", "web")), pods: all("web"), unable: "no pod matches"},
		"the replica excludes every pod":             {web: everyone, drops: "anti-affinity [0]", unable: "zone a excludes it"},
		"the replacement alone is not excluded": {
			web: none, unable: "zone b excludes it", pods: []*corev1.Pod{pod("db1", "spot-b", labeled("db"), apart(corev1.PodAffinityTerm{
				TopologyKey: zone, LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"db", "web"}},
				}},
			}))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			replica := pod("web0", "spot-a", none, c.web)
			s := snapshot(t, DefaultProfile(), nodes, append(c.pods, replica))
			d, held := domainsFor(s, replica, pod("next", "", none, c.web), c.others...)
			if c.unable != "" {
				assert.Contains(t, d.Unable, c.unable)
				return
			}
			assert.Empty(t, d.Unable)
			assert.Equal(t, c.want, d.Requirements)
			switch {
			case d.Affinity:
				assert.Equal(t, "affinity", c.drops)
				assert.Empty(t, held.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
			case len(d.AntiAffinity) > 0:
				assert.Equal(t, fmt.Sprint("anti-affinity ", d.AntiAffinity), c.drops)
			default:
				assert.Empty(t, c.drops)
			}
		})
	}
}

func TestMoreHostsThanARequirementNamesMakeAPlaceholderUnable(t *testing.T) {
	for excluded, unable := range map[int]bool{maxValues: false, maxValues + 1: true} {
		replica := pod("web0", "spot", labeled("web"))
		nodes, pods := []*corev1.Node{zoned("spot", "a", "spot")}, []*corev1.Pod{replica}
		for i := range excluded {
			name := fmt.Sprint("n", i)
			nodes = append(nodes, zoned(name, "a", "on-demand"))
			pods = append(pods, pod("db"+name, name, labeled("db"), apart(selecting(corev1.LabelHostname, "web"))))
		}
		d, _ := domainsFor(snapshot(t, DefaultProfile(), nodes, pods), replica, nil)
		if unable {
			assert.Contains(t, d.Unable, "101 domains of kubernetes.io/hostname")
		} else {
			assert.Empty(t, d.Unable)
		}
	}
}

func TestAPlaceholderIsOutsideWhereTheReplacementIsExcluded(t *testing.T) {
	nodes := []*corev1.Node{zoned("spot-a", "a", "spot"), zoned("od-b", "b", "on-demand")}
	replica := pod("web0", "spot-a", labeled("web"), apart(selecting(corev1.LabelHostname, "web")))
	holder := pod("held", "od-b", labeled(""), apart(selecting(corev1.LabelHostname, "web")))
	outside := func(more ...*corev1.Pod) bool {
		s := snapshot(t, DefaultProfile(), nodes, append(more, replica, holder))
		q := Question{Pod: replica, Gone: []types.UID{replica.UID}, Nodes: onDemandNodes}
		return s.Domains(q, Holder{UID: holder.UID, Replica: replica.UID}, nil).Outside
	}
	assert.False(t, outside(), "its own terms do not exclude its replica")
	assert.True(t, outside(pod("db", "od-b", labeled("db"), apart(selecting(corev1.LabelTopologyZone, "web")))))
	assert.True(t, outside(pod("web1", "od-b", labeled("web"))))
	assert.False(t, outside(pod("web1", "spot-a", labeled("web"))))
}

// drawTerms draws required terms of any shape that the API server accepts.
func drawTerms(rt *rapid.T, what string) (terms []corev1.PodAffinityTerm) {
	for range rapid.IntRange(0, 2).Draw(rt, what) {
		term := selecting(rapid.SampledFrom([]string{corev1.LabelTopologyZone, corev1.LabelTopologyZone, corev1.LabelHostname, "rack"}).Draw(rt, "key"),
			rapid.SampledFrom([]string{"web", "web", "db"}).Draw(rt, "app"))
		switch rapid.IntRange(0, 9).Draw(rt, "selector") {
		case 0:
			term.LabelSelector = &metav1.LabelSelector{}
		case 1:
			term.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"db"}},
			}}
		}
		switch rapid.IntRange(0, 4).Draw(rt, "namespaces") {
		case 0:
			term.Namespaces = []string{"ns", "other"}
		case 1:
			term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
		}
		terms = append(terms, term)
	}
	return terms
}

func drawPod(rt *rapid.T, name, onNode string) *corev1.Pod {
	p := pod(name, onNode, labeled(rapid.SampledFrom([]string{"web", "web", "db"}).Draw(rt, name)))
	p.Namespace = rapid.SampledFrom([]string{"ns", "ns", "other"}).Draw(rt, "namespace")
	near(drawTerms(rt, "affinity")...)(p)
	apart(drawTerms(rt, "anti-affinity")...)(p)
	return p
}

func namespaces() (list []kruntime.Object) {
	for name, team := range map[string]string{"ns": "a", "other": "b"} {
		list = append(list, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}})
	}
	return list
}

// A placeholder that is placed on a node implies that the replacement fits there once the replica is gone. On a node that comes, it is
// not excluded where the replacement would fit. The scheduler's own filters decide both.
func TestAPlaceholderFitsWhereTheFiltersAllowItsReplacement(t *testing.T) {
	placed, came, unable := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		var nodes, later []*corev1.Node
		zones := []string{"a", "b", "c"}
		for i := range rapid.IntRange(1, 5).Draw(rt, "nodes") {
			n := zoned(fmt.Sprint("n", i), rapid.SampledFrom(zones).Draw(rt, "zone"), rapid.SampledFrom([]string{"spot", "on-demand"}).Draw(rt, "type"))
			if rapid.Bool().Draw(rt, "rack") {
				n.Labels["rack"] = rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "rack")
			}
			nodes = append(nodes, n)
		}
		nodes[0].Labels["karpenter.sh/capacity-type"] = "spot"
		for _, zone := range zones {
			n := zoned("new-"+zone, zone, "on-demand")
			if rapid.Bool().Draw(rt, "new rack") {
				n.Labels["rack"] = rapid.SampledFrom([]string{"1", "2", "3"}).Draw(rt, "rack")
			}
			later = append(later, n)
		}
		replica := drawPod(rt, "replica", "n0")
		pods := []*corev1.Pod{replica}
		for i := range rapid.IntRange(0, 5).Draw(rt, "pods") {
			name := fmt.Sprint("p", i)
			p := drawPod(rt, name, nodes[rapid.IntRange(0, len(nodes)-1).Draw(rt, "node")].Name)
			if rapid.Bool().Draw(rt, "sibling") {
				p.Labels, p.Namespace, p.Spec.Affinity = replica.Labels, replica.Namespace, replica.Spec.Affinity
			}
			pods = append(pods, p)
		}
		next := replica.DeepCopy()
		if rapid.IntRange(0, 3).Draw(rt, "template changed") == 0 {
			next = drawPod(rt, "next", "")
			next.Namespace = replica.Namespace
		}
		d, held := domainsFor(snapshot(t, DefaultProfile(), nodes, pods, namespaces()...), replica, next)
		if d.Unable != "" {
			unable++
			return
		}
		s := snapshot(t, DefaultProfile(), slices.Concat(nodes, later), pods, namespaces()...)
		for _, n := range slices.Concat(nodes, later) {
			here := func(o *corev1.Node) bool { return o.Name == n.Name }
			holds := ask(t, s, Question{Pod: held, Nodes: here})
			fits := ask(t, s, Question{Pod: replica, Next: next, Gone: []types.UID{replica.UID}, Nodes: here})
			if holds.Fits && !fits.Fits {
				rt.Fatalf("the placeholder is placed on %s %v, but not the replacement: %s; %+v", n.Name, n.Labels, fits.Message(), d)
			}
			if slices.Contains(later, n) && fits.Fits && !holds.Fits {
				rt.Fatalf("the placeholder is excluded from %s %v, but not the replacement: %s; %+v", n.Name, n.Labels, holds.Message(), d)
			}
			if holds.Fits {
				placed++
			}
			if slices.Contains(later, n) && fits.Fits {
				came++
			}
		}
	})
	t.Logf("%d placed, %d of them on nodes that came, and %d drawn without a placeholder", placed, came, unable)
	require.Positive(t, placed)
	require.Positive(t, came)
	require.Positive(t, unable)
}

func TestRulesAdmitNodesByTheirLabels(t *testing.T) {
	with := func(labels map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	}
	admitted := func(r rule) (zones []string) {
		for name, n := range map[string]*corev1.Node{"a": with(map[string]string{"zone": "a"}), "b": with(map[string]string{"zone": "b"}), "none": with(nil)} {
			if r.admits(n) {
				zones = append(zones, name)
			}
		}
		return zones
	}
	values := map[string]bool{"a": true}
	assert.ElementsMatch(t, []string{"b", "none"}, admitted(rule{key: "zone", values: values}))
	assert.ElementsMatch(t, []string{"a"}, admitted(rule{key: "zone", only: true, values: values}))
	assert.ElementsMatch(t, []string{"a", "b"}, admitted(rule{key: "zone", only: true}))
}

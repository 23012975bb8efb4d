// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/score"
	"berth.dev/berth/plugins/capacitymix"
	"berth.dev/berth/test/plugintest"
)

// byController is the group of a pod of a controller; other pods have none.
func byController(p *corev1.Pod) group {
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		return group{namespace: p.Namespace, controller: owner.UID}
	}
	return group{}
}

// Whatever comes and goes on nodes that stay, the counts are those of a scan of all pods.
func TestCountsFollowTheNodes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var nodes []fwk.NodeInfo
		for _, n := range fleetOf(4) {
			info := framework.NewNodeInfo()
			info.SetNode(n)
			nodes = append(nodes, info)
		}
		s, next := newSiblings(), 0
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			n := nodes[rapid.IntRange(0, 3).Draw(t, "node")].(*framework.NodeInfo)
			if pods := n.GetPods(); len(pods) > 0 && rapid.Bool().Draw(t, "remove") {
				require.NoError(t, n.RemovePod(klog.Logger{}, pods[0].GetPod()))
			} else {
				next++
				p := pod(fmt.Sprint(next), n.Node().Name)
				p.OwnerReferences[0].UID = types.UID(rapid.SampledFrom([]string{"web", "db"}).Draw(t, "owner"))
				n.AddPod(p)
			}
			for _, owner := range []types.UID{"web", "db"} {
				g := group{namespace: "shop", controller: owner}
				m := s.count(g, nodes, 0, byController)
				total := 0
				for i, info := range nodes {
					want := 0
					for _, p := range info.GetPods() {
						if byController(p.GetPod()) == g {
							want++
						}
					}
					total += want
					if m != nil {
						require.EqualValues(t, want, m.on[int32(i)])
					}
				}
				require.Equal(t, total == 0, m == nil, "a group without pods is not kept")
			}
		}
	})
}

// The group of a pod without a controller is that of its policy.
func TestCountsFollowThePolicies(t *testing.T) {
	t.Parallel()
	info := framework.NewNodeInfo(pod("1", "n00", func(p *corev1.Pod) { p.OwnerReferences = nil }))
	info.SetNode(node("n00", "a"))
	nodes, s := []fwk.NodeInfo{info}, newSiblings()
	as := func(policy string) func(*corev1.Pod) group {
		return func(p *corev1.Pod) group { return group{namespace: p.Namespace, policy: policy} }
	}
	assert.NotNil(t, s.count(group{namespace: "shop", policy: "a"}, nodes, 1, as("a")))
	assert.NotNil(t, s.count(group{namespace: "shop", policy: "b"}, nodes, 2, as("b")))
	assert.Nil(t, s.count(group{namespace: "shop", policy: "a"}, nodes, 2, as("b")))
}

// A change of a policy costs nothing where the namespace has no pods without a controller.
func TestAPolicyRegroupsThePodsOfItsNamespaceOnly(t *testing.T) {
	t.Parallel()
	bare := func(namespace string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Namespace, p.OwnerReferences = namespace, nil }
	}
	var nodes []fwk.NodeInfo
	for i, n := range fleetOf(20) {
		info := framework.NewNodeInfo(pod("1", n.Name), pod("2", n.Name, bare("other")))
		if i == 7 {
			info.AddPod(pod("3", n.Name, bare("shop")))
		}
		info.SetNode(n)
		nodes = append(nodes, info)
	}
	s, grouped := newSiblings(), 0
	groupOf := func(p *corev1.Pod) group {
		grouped++
		return group{namespace: p.Namespace, policy: "policy"}
	}
	shop, other := group{namespace: "shop", policy: "policy"}, group{namespace: "other", policy: "policy"}
	s.count(shop, nodes, 1, groupOf)
	require.Equal(t, 41, grouped)
	grouped = 0
	s.count(shop, nodes, 2, groupOf)
	assert.Equal(t, 3, grouped, "the pods of one node")
	s.count(group{namespace: "shop", controller: "web"}, nodes, 3, groupOf)
	assert.Equal(t, 3, grouped)
	require.NotNil(t, s.count(other, nodes, 0, groupOf))
	assert.Equal(t, 3, grouped)
}

// mixFixture is the plugin beside CapacityMix, with a mix for the pods of app web.
type mixFixture struct {
	*fixture
	mix *capacitymix.CapacityMix
}

func newMixFixture(tb testing.TB, nodes ...*corev1.Node) *mixFixture {
	tb.Helper()
	f := &mixFixture{fixture: newFixture(tb, noArgs(), nodes...)}
	pl, err := capacitymix.NewFactory()(f.Ctx, plugintest.Args(), f.framework)
	require.NoError(tb, err)
	f.mix = pl.(*capacitymix.CapacityMix)
	f.Start()
	require.NoError(tb, f.mix.Startup.Wait(f.Ctx))
	plugintest.Await(tb, f.mix.Quarantine.Synced) // its list would race with reactors that tests add
	require.NoError(tb, f.mix.Mixes.Set(plugintest.CapacityMix("web", 80, 0)))
	f.setNodes(nodes...)
	return f
}

// setNodes has the ledger and the next snapshot see nodes.
func (f *mixFixture) setNodes(nodes ...*corev1.Node) {
	for _, n := range f.nodes {
		f.mix.NodeHandler().OnDelete(n)
	}
	f.nodes = nodes
	for _, n := range nodes {
		f.mix.NodeHandler().OnAdd(n, false)
	}
}

// attempt is one of a pod for which some nodes are feasible. It has a slot if its mix is to be found.
func (f *mixFixture) attempt(t plugintest.TB, p *corev1.Pod, mixed bool, nodes []fwk.NodeInfo) *attempt {
	state := framework.NewCycleState()
	if mixed {
		f.SetPods(t, p)
		_, status := f.mix.PreFilter(f.Ctx, state, p, nil)
		require.True(t, status.IsSuccess(), status.Message())
	}
	return &attempt{
		pl: f.plugin, state: state, governor: f.plugin.governorOf(p), pod: p, nodes: nodes, all: f.infos(t),
		table: &table{facts: make([]score.Facts, len(nodes))},
	}
}

// ofSet is one of the pods of app web in a set. No one looks up the owners of sets.
func ofSet(set string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		ofApp("web")(p)
		owner := &p.OwnerReferences[0]
		owner.APIVersion, owner.Kind, owner.UID = "example.com/v1", "Set", types.UID(set)
	}
}

// Whatever happens to pods and nodes, the counts of the ledger are those of the snapshot.
func TestTheLedgerCountsAsTheSnapshotDoes(t *testing.T) {
	f := newMixFixture(t, fleetOf(4)...)
	rules := policy(preset(v1alpha1.ScorePresetSpread))
	rules.Spec.Score.FailureDomainKey = "rack"
	f.set(rules)
	serial := 0
	rapid.Check(t, func(t *rapid.T) {
		pods := map[string]*corev1.Pod{}
		defer func() {
			for _, p := range pods {
				f.mix.PodHandler().OnDelete(p)
			}
		}()
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			serial++
			f.step(t, pods, fmt.Sprint(serial))
			f.snapshotOf(pods)
			infos := f.infos(t)
			feasible := infos[rapid.IntRange(0, len(infos)).Draw(t, "feasible"):]
			for _, set := range []string{"a", "b"} {
				x := pod("x-"+set, "", ofSet(set))
				inLedger, inSnapshot := f.attempt(t, x, true, feasible), f.attempt(t, x, false, feasible)
				require.True(t, inLedger.countInLedger())
				require.False(t, inSnapshot.countInLedger())
				inSnapshot.countSiblings()
				require.Equal(t, inSnapshot.table, inLedger.table, "set %s", set)
			}
		}
	})
}

// step changes a pod or the nodes at random.
func (f *mixFixture) step(t *rapid.T, pods map[string]*corev1.Pod, name string) {
	handler := f.mix.PodHandler()
	names := slices.Sorted(maps.Keys(pods))
	switch action := rapid.IntRange(0, 9).Draw(t, "action"); {
	case action == 0:
		f.setNodes(drawNodes(t)...)
	case action < 3 && len(names) > 0: // deleted, at once or after a while
		p := pods[rapid.SampledFrom(names).Draw(t, "pod")]
		if p.DeletionTimestamp != nil || action == 1 {
			delete(pods, p.Name)
			handler.OnDelete(p)
			return
		}
		terminating := p.DeepCopy()
		deleted(terminating)
		pods[p.Name] = terminating
		handler.OnUpdate(p, terminating)
	default:
		p := pod(name, fmt.Sprintf("n%02d", rapid.IntRange(0, 3).Draw(t, "node")), ofSet(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "set")))
		pods[name] = p
		if action < 7 {
			handler.OnAdd(p, false)
			return
		}
		// It is assumed, and its binding is under way.
		x := p.DeepCopy()
		x.Spec.NodeName = ""
		a := f.attempt(t, x, true, nil)
		require.True(t, f.mix.Reserve(f.Ctx, a.state, x, p.Spec.NodeName).IsSuccess())
	}
}

// drawNodes are some of four nodes, with or without a zone and a rack.
func drawNodes(t *rapid.T) (nodes []*corev1.Node) {
	for _, n := range fleetOf(4) {
		if rapid.IntRange(0, 4).Draw(t, "absent") == 0 && len(nodes) > 0 {
			continue
		}
		for _, key := range []string{corev1.LabelTopologyZone, "rack"} {
			if value := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, key); value == "" {
				delete(n.Labels, key)
			} else {
				n.Labels[key] = value
			}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// snapshotOf has the scheduler see the pods on nodes that are there: it has no others.
func (f *mixFixture) snapshotOf(pods map[string]*corev1.Pod) {
	var seen []*corev1.Pod
	for _, p := range pods {
		if slices.ContainsFunc(f.nodes, func(n *corev1.Node) bool { return n.Name == p.Spec.NodeName }) {
			seen = append(seen, p)
		}
	}
	f.snapshot(seen...)
}

// All nodes are read only for pods whose siblings the ledger does not count, or groups in another way.
func TestAllNodesAreReadOnlyWithoutCountsInTheLedger(t *testing.T) {
	t.Parallel()
	bare := func(p *corev1.Pod) { p.OwnerReferences = nil }
	for name, test := range map[string]struct {
		pod   *corev1.Pod
		mixed bool
		want  bool
	}{
		"with a mix":                           {pod("x", "", ofSet("a")), true, false},
		"with a mix, but without a controller": {pod("x", "", ofApp("web"), bare), true, true},
		"without a mix":                        {pod("x", "", ofSet("a")), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newMixFixture(t, fleetOf(3)...)
			f.set(policy(preset(v1alpha1.ScorePresetSpread)))
			f.snapshot(pod("1", "n00", ofSet("a")), pod("2", "n00", ofApp("other"), bare))
			for _, p := range f.pods {
				f.mix.PodHandler().OnAdd(p, false)
			}
			a := f.attempt(t, test.pod, test.mixed, f.infos(t))
			a.countSiblings()
			assert.Equal(t, test.want, len(f.plugin.siblings.list) > 0)
			assert.Equal(t, score.Most{OnNode: 1, InZone: 1, InDomain: 1}, a.table.most, "one sibling, whichever that is")
		})
	}
}

// apartFrom prefers to be away from the pods of an app.
func apartFrom(app string, weight int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight:          weight,
			PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		}}}}
	}
}

func ofApp(app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{"app": app} }
}

func deleted(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }

// Preferences of the pod and of those that run count, but none of pods that are being deleted.
func TestAntiAffinityCountsBothSides(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noArgs(), node("a", "1"), node("b", "1"), node("c", "1"))
	f.set(policy(functions(v1alpha1.ScoreAntiAffinity), tieBreaker(v1alpha1.TieBreakerName)))
	f.snapshot(pod("1", "a", ofApp("rival"), apartFrom("web", 50)), pod("2", "b", ofApp("rival")))
	on, _ := f.place(t, pod("x", "", ofApp("web")))
	assert.Equal(t, "b", on, "the pod on a prefers to be apart from it")
	on, _ = f.place(t, pod("x", "", ofApp("other"), apartFrom("rival", 10)))
	assert.Equal(t, "c", on, "it prefers to be apart from the pods on a and b")
	f.snapshot(pod("1", "a", ofApp("rival"), deleted), pod("2", "b", ofApp("rival")))
	on, _ = f.place(t, pod("x", "", ofApp("other"), apartFrom("rival", 10)))
	assert.Equal(t, "a", on)
	f.snapshot(pod("1", "a", ofApp("rival"), apartFrom("web", 50), deleted))
	on, _ = f.place(t, pod("x", "", ofApp("web")))
	assert.Equal(t, "a", on)
}

func TestTopologySpreadCountsPodsThatStay(t *testing.T) {
	t.Parallel()
	spread := func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}
	}
	f := newFixture(t, noArgs(), node("a", "1"), node("b", "2"))
	f.set(policy(functions(v1alpha1.ScoreTopologySpread), tieBreaker(v1alpha1.TieBreakerName)))
	f.snapshot(pod("1", "a", ofApp("web")), pod("2", "b", ofApp("db")))
	on, _ := f.place(t, pod("x", "", ofApp("web"), spread))
	assert.Equal(t, "b", on)
	f.snapshot(pod("1", "a", ofApp("web"), deleted))
	on, _ = f.place(t, pod("x", "", ofApp("web"), spread))
	assert.Equal(t, "a", on)
}

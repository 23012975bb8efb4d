// SPDX-License-Identifier: Apache-2.0

package overview_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/overview"
)

var update = flag.Bool("update", false, "write the golden file again")

// shop is a cluster.
type shop struct {
	pods   []*corev1.Pod
	nodes  []*corev1.Node
	mixes  []*v1alpha1.CapacityMix
	owners []metav1.Object
}

func (s *shop) node(name, capacityType, zone string, changes ...func(*corev1.Node)) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if capacityType != "" {
		n.Labels[capacity.KarpenterCapacityType] = capacityType
	}
	if zone != "" {
		n.Labels[corev1.LabelTopologyZone] = zone
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, change := range changes {
		change(n)
	}
	s.nodes = append(s.nodes, n)
}

func departing(n *corev1.Node) {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule})
}

func (s *shop) mix(namespace, app string, percent, least int32) *v1alpha1.CapacityMix {
	m := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app, Generation: 2}}
	m.Spec.Selector.MatchLabels, m.Spec.SpotPercent, m.Spec.MinOnDemand = map[string]string{"app": app}, percent, least
	s.mixes = append(s.mixes, m)
	return m
}

// workload adds a ReplicaSet; slot k runs on nodes[k], "" is pending.
func (s *shop) workload(namespace, app string, replicas int32, nodes ...string) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app, UID: types.UID(namespace + "/" + app), Generation: 1}}
	rs.Spec.Replicas, rs.Status.Replicas = &replicas, replicas
	s.owners = append(s.owners, rs)
	for slot, node := range nodes {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-%d", app, slot), UID: types.UID(fmt.Sprintf("%s/%s-%d", namespace, app, slot)),
			Labels: map[string]string{"app": app}, CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000+int64(slot), 0)),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: rs.Name, UID: rs.UID, Controller: new(true)}},
		}}
		if p.Spec.SchedulerName, p.Spec.NodeName = "berth-scheduler", node; node != "" {
			p.Annotations = map[string]string{v1alpha1.SlotAnnotation: strconv.Itoa(slot), v1alpha1.PodDeletionCostAnnotation: strconv.Itoa(-slot)}
		}
		s.pods = append(s.pods, p)
	}
	return rs
}

func (s *shop) input(t require.TestingT) overview.Input {
	classifier, err := capacity.NewClassifier(capacity.DefaultRules())
	require.NoError(t, err)
	store := governing.NewRegistry()
	for _, m := range s.mixes {
		require.NoError(t, store.Set(m))
	}
	state := clusterstate.New(clusterstate.Options{
		Classifier: classifier, Conventions: governing.Conventions{Prefixes: []string{governing.PrefixBerth}}, Mixes: store,
	})
	state.ReplaceNodes(s.nodes)
	for _, o := range s.owners {
		state.SetOwner(o)
	}
	state.ReplacePods(s.pods)
	return overview.Input{State: state, Pods: s.pods, Nodes: s.nodes, Mixes: s.mixes}
}

// oneOfEach has a slot in every state.
func oneOfEach() *shop {
	s := &shop{}
	s.node("s1", "spot", "a")
	s.node("s2", "spot", "b", departing)
	s.node("o1", "on-demand", "a")
	s.node("o2", "reserved", "")
	s.node("x", "", "b")
	s.mix("shop", "web", 50, 1)
	s.mix("shop", "db", 50, 1)
	s.mix("back", "job", 0, 0)
	api := s.mix("shop", "api", 100, 0)
	api.Status.ObservedGeneration = 2
	api.Status.Workloads = []v1alpha1.WorkloadMix{{
		Kind: "ReplicaSet", Name: "api", Blocked: &v1alpha1.BlockedMove{Reason: "InsufficientCapacity", Message: "no spot node has free capacity"},
	}}
	s.workload("shop", "web", 4, "o1", "s1", "o2", "s1")
	s.workload("shop", "api", 4, "o1", "s2", "")
	s.workload("shop", "db", 2, "o1", "x")
	s.workload("back", "job", 1, "o1")
	s.workload("back", "free", 1, "o1")
	s.pods[6].Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/5 nodes are available",
	}}
	return s
}

func TestGolden(t *testing.T) {
	out, err := json.MarshalIndent(overview.Of(oneOfEach().input(t)), "", "  ")
	require.NoError(t, err)
	file := filepath.Join("testdata", "overview.json")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(file, append(out, '\n'), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(out)+"\n", "run the test with -update if it should be so")
}

func TestASelectorChoosesWorkloadsByTheirPods(t *testing.T) {
	in := oneOfEach().input(t)
	var err error
	in.Selector, err = labels.Parse("app in (web,free)")
	require.NoError(t, err)
	o := overview.Of(in)
	require.Len(t, o.Workloads, 1)
	assert.Equal(t, "web", o.Workloads[0].Name)
	assert.Equal(t, overview.Known(1), o.Totals.Mixes)
	assert.Equal(t, overview.Known(4), o.Totals.Replicas)
	pods := 0
	for _, n := range o.Nodes {
		on, known := n.Pods.Get()
		require.True(t, known)
		pods += on
	}
	assert.Equal(t, 4, pods, "the pods of other workloads are not counted")
}

// A status about an older spec, and one of another workload, explain nothing.
func TestOnlyACurrentReportIsTheReason(t *testing.T) {
	reason := func(change func(*v1alpha1.CapacityMix)) string {
		s := oneOfEach()
		change(s.mixes[3])
		w := overview.Of(s.input(t)).Workloads
		return w[slices.IndexFunc(w, func(w overview.Workload) bool { return w.Name == "api" })].Reason
	}
	assert.Equal(t, "InsufficientCapacity", reason(func(*v1alpha1.CapacityMix) {}))
	assert.Equal(t, "WrongType", reason(func(m *v1alpha1.CapacityMix) { m.Generation = 3 }))
	assert.Equal(t, "WrongType", reason(func(m *v1alpha1.CapacityMix) { m.Status.ObservedGeneration = 0 }))
	assert.Equal(t, "WrongType", reason(func(m *v1alpha1.CapacityMix) { m.Status.Workloads[0].Revision = "old" }))
}

func TestTwoBillionReplicasListFewSlots(t *testing.T) {
	s := &shop{}
	s.mix("shop", "web", 70, 2)
	s.workload("shop", "web", math.MaxInt32, "")
	w := overview.Of(s.input(t)).Workloads[0]
	assert.Len(t, w.Slots, 257)
	assert.Equal(t, math.MaxInt32, len(w.Slots)+w.HiddenSlots)
	assert.Equal(t, overview.Known(math.MaxInt32), w.Pending)
}

// hostile is what a tenant or a cloud may write where the API server does not refuse it.
const hostile = "a\x1b[2J\x1b]0;owned\a\r\u202egnp\u0000\u009b1m\xff\u200bz"

func TestHostileTextsAreInertAndBounded(t *testing.T) {
	s := oneOfEach()
	for _, p := range s.pods {
		p.OwnerReferences[0].Kind = hostile
		if p.Spec.NodeName == "" {
			p.Status.Conditions[0].Message = strings.Repeat(hostile, 1<<14)
		}
	}
	s.pods[4].OwnerReferences[0].Kind, s.pods[5].OwnerReferences[0].Kind, s.pods[6].OwnerReferences[0].Kind = "ReplicaSet", "ReplicaSet", "ReplicaSet"
	s.nodes[0].Labels[corev1.LabelTopologyZone] = strings.Repeat(hostile, 1<<14)
	s.mixes[3].Status.Workloads[0].Blocked.Message = strings.Repeat(hostile, 1<<14)
	s.mixes[3].Status.Workloads[0].Blocked.Reason = hostile
	var all []string
	o := overview.Of(s.input(t))
	for _, w := range o.Workloads {
		all = append(all, w.Namespace, w.Kind, w.Name, w.Revision, w.Source, w.Rule, w.Reason, w.Message)
		for _, slot := range w.Slots {
			all = append(all, slot.Pod, slot.Node, slot.NodeType, slot.Reason)
		}
	}
	for _, n := range o.Nodes {
		all = append(all, n.Zone)
	}
	for _, text := range all {
		assert.LessOrEqual(t, len(text), 600)
		assert.NotContains(t, text, "\x1b")
		assert.False(t, strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }), "%q", text)
	}
	assert.True(t, slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, `a\x1b[2J`) }), "shown, not dropped")
}

func drawShop(t *rapid.T) *shop {
	s := &shop{}
	names := []string{"", "s1", "s2", "o1", "o2", "x", "gone"}
	s.node("s1", "spot", "a")
	s.node("s2", "spot", "b", departing)
	s.node("o1", "on-demand", "a")
	s.node("o2", "on-demand", "b", departing)
	s.node("x", "", "")
	for i := range rapid.IntRange(0, 5).Draw(t, "workloads") {
		namespace, app := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"), fmt.Sprint("app-", i)
		s.mix(namespace, app, rapid.Int32Range(0, 100).Draw(t, "percent"), rapid.Int32Range(0, 5).Draw(t, "least"))
		s.workload(namespace, app, rapid.Int32Range(0, 12).Draw(t, "replicas"), rapid.SliceOfN(rapid.SampledFrom(names), 0, 12).Draw(t, "nodes")...)
	}
	return s
}

// Every number is that of the group, and the slots add up to it.
func TestSlotsWorkloadsAndTotalsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawShop(t).input(t)
		o := overview.Of(in)
		sum := overview.NoCounts()
		satisfied, replicas := 0, 0
		for _, w := range o.Workloads {
			g := in.State.Group(governing.GroupKey{Namespace: w.Namespace, ID: w.ID})
			require.NotNil(t, g)
			requireGroup(t, g, &w)
			requireSlots(t, &w)
			sum.Add(w.Counts)
			replicas += w.Replicas
			if w.Satisfied.Is(true) {
				satisfied++
			}
			require.Equal(t, w.Satisfied.Is(true), w.Reason == "" && w.Message == "", "%+v", w)
		}
		require.Equal(t, sum, o.Totals.Counts)
		require.Equal(t, overview.Known(replicas), o.Totals.Replicas)
		require.Equal(t, overview.Known(satisfied), o.Totals.Satisfied)
		require.Equal(t, overview.Known(len(o.Workloads)), o.Totals.Workloads)
		require.Equal(t, overview.Known(len(in.Mixes)), o.Totals.Mixes)
		require.True(t, slices.IsSortedFunc(o.Workloads, func(a, b overview.Workload) int {
			key := func(w overview.Workload) string { return fmt.Sprint(w.Satisfied, " ", w.Namespace, " ", w.Name) } // false before true
			return strings.Compare(key(a), key(b))
		}))
		nodes := 0
		for _, n := range o.Nodes {
			nodes += n.Nodes
		}
		require.Len(t, in.State.Nodes(), nodes)
	})
}

// requireGroup compares a workload with what the group reports, which is what the controller writes to the status.
func requireGroup(t *rapid.T, g *clusterstate.Group, w *overview.Workload) {
	pending, departing, _ := g.Counts()
	known := overview.Counts{
		Desired:  overview.Known(overview.Split{Spot: g.Governing.Mix.Spot(g.Replicas), OnDemand: g.Replicas - g.Governing.Mix.Spot(g.Replicas)}),
		Actual:   overview.Known(overview.Split(g.Actual())),
		Borrowed: overview.Known(g.Borrowed()), Pending: overview.Known(pending), Departing: overview.Known(departing),
		PendingByType: overview.Known(overview.Split(g.PendingByType())),
	}
	require.Equal(t, g.Replicas, w.Replicas)
	require.Equal(t, known, w.Counts)
	require.Equal(t, overview.Known(g.Satisfied()), w.Satisfied)
}

// requireSlots counts the slots of a workload.
func requireSlots(t *rapid.T, w *overview.Workload) {
	var actual, pending overview.Split
	count := map[overview.State]int{}
	add := func(s *overview.Split, name string) {
		switch name {
		case "spot":
			s.Spot++
		case "on-demand":
			s.OnDemand++
		default:
			s.Unknown++
		}
	}
	floor, last := 0, -1
	for _, s := range w.Slots {
		count[s.State]++
		require.Greater(t, s.Slot, last, "a slot once, in order")
		last = s.Slot
		switch s.State {
		case overview.InPlace, overview.Borrowed:
			add(&actual, s.NodeType)
			require.Equal(t, s.State == overview.InPlace, s.NodeType == s.Type)
		case overview.Pending, overview.NoPod:
			add(&pending, s.Type)
		}
		require.Equal(t, s.Reason == "", s.State == overview.InPlace || s.State == overview.NoPod)
		if s.Floor {
			require.Equal(t, "on-demand", s.Type)
			floor++
		}
	}
	require.Equal(t, w.Actual, overview.Known(actual))
	require.Equal(t, w.PendingByType, overview.Known(pending))
	require.Equal(t, w.Borrowed, overview.Known(count[overview.Borrowed]))
	require.Equal(t, w.Departing, overview.Known(count[overview.Departing]))
	require.Equal(t, w.Pending, overview.Known(count[overview.Pending]+count[overview.NoPod]))
	if last == len(w.Slots)-1 && w.Replicas == len(w.Slots) {
		require.Equal(t, w.Floor, floor)
	}
}

// large is a cluster of 1,000 workloads with 10 pods each on 200 nodes.
func large() *shop {
	s := &shop{}
	for i := range 200 {
		s.node(fmt.Sprint("n", i), []string{"spot", "on-demand"}[i%2], string(rune('a'+i%3)))
	}
	for i := range 1000 {
		namespace, app := fmt.Sprint("ns-", i%20), fmt.Sprint("app-", i)
		nodes := make([]string, 10)
		for k := range nodes {
			if k != i%17 { // some wait, some are on the wrong type
				nodes[k] = fmt.Sprint("n", (i+k*7)%200)
			}
		}
		s.mix(namespace, app, 70, 2)
		s.workload(namespace, app, 10, nodes...)
	}
	return s
}

func BenchmarkOf(b *testing.B) {
	s := large()
	b.Run("from objects", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			require.Len(b, overview.Of(s.input(b)).Workloads, 1000)
		}
	})
	b.Run("from a composed state", func(b *testing.B) {
		b.ReportAllocs()
		in := s.input(b)
		for b.Loop() {
			require.Len(b, overview.Of(in).Workloads, 1000)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

const scheduler = "berth-scheduler"

func resources(cpu string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
}

// node returns a node with an amount of CPU.
func node(name, cpu string, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	n.Status.Allocatable = resources(cpu)
	n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
	for _, change := range changes {
		change(n)
	}
	return n
}

// pod returns a pod that requests one CPU.
func pod(name, onNode string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name), Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			NodeName: onNode, SchedulerName: scheduler,
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: resources("1")}}},
		},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func antiAffinity(key string) *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}},
	}}
}

// kept is what a snapshot is made of.
func kept(nodes []*corev1.Node, all []*corev1.Pod) pods {
	out := pods{nodes: nodes}
	for _, p := range all {
		out.all = append(out.all, scheduled(p))
	}
	return out
}

// stateOf is the state of pods, with a record for each zone of a workload.
func stateOf(t require.TestingT, nodes []*corev1.Node, all []*corev1.Pod) *state {
	s := Snapshot{pods: kept(nodes, all), records: newRecords(true), view: &view{}}
	require.NoError(t, s.rebuild())
	return s.base
}

func snapshot(t testing.TB, p *Profile, nodes []*corev1.Node, all []*corev1.Pod, objects ...kruntime.Object) *Snapshot {
	t.Helper()
	s, err := newSnapshot(t.Context(), fake.NewClientset(objects...), p, kept(nodes, all))
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func ask(t *testing.T, s *Snapshot, q Question) Answer {
	t.Helper()
	a, err := s.Fits(t.Context(), q)
	require.NoError(t, err)
	return a
}

func TestTheVictimFreesCapacityOnlyWhileItIsGone(t *testing.T) {
	victim := pod("victim", "n1")
	s := snapshot(t, DefaultProfile(), []*corev1.Node{node("n2", "1"), node("n1", "1")}, []*corev1.Pod{victim, pod("other", "n2")})
	a := ask(t, s, Question{Pod: victim})
	assert.False(t, a.Fits)
	assert.Equal(t, map[string]int{"Insufficient cpu": 2}, a.Reasons)
	assert.Equal(t, "0/2 nodes are available: 2 Insufficient cpu.", a.Message())

	a = ask(t, s, Question{Pod: victim, Gone: []types.UID{"victim"}})
	assert.Equal(t, Answer{Fits: true, Node: "n1", Candidates: 2, Reasons: map[string]int{}}, a)
	assert.Equal(t, "node n1 fits.", a.Message())

	a = ask(t, s, Question{Pod: victim, Gone: []types.UID{"victim"}, Nodes: func(n *corev1.Node) bool { return n.Name == "n2" }})
	assert.Equal(t, "0/1 nodes are available: 1 Insufficient cpu.", a.Message())
	assert.False(t, ask(t, s, Question{Pod: victim}).Fits, "the victim is back")
	assert.Equal(t, "no node is a candidate.", ask(t, s, Question{Pod: victim, Nodes: func(*corev1.Node) bool { return false }}).Message())
}

func TestAReplacementHasNoFieldsOfItsPlacement(t *testing.T) {
	now := metav1.Now()
	victim := pod("victim", "n1", func(p *corev1.Pod) {
		p.DeletionTimestamp = &now
		p.Status.NominatedNodeName, p.Status.Phase = "n1", corev1.PodRunning
	})
	s := snapshot(t, DefaultProfile(), []*corev1.Node{node("n1", "1"), node("n2", "1")}, []*corev1.Pod{victim})
	assert.Equal(t, "n2", ask(t, s, Question{Pod: victim}).Node)
	assert.Equal(t, "n1", victim.Spec.NodeName, "the question is not changed")
}

func TestNominatedPodsKeepTheirCapacity(t *testing.T) {
	nominated := func(priority int32) []*corev1.Pod {
		return []*corev1.Pod{pod("preemptor", "", func(p *corev1.Pod) {
			p.Spec.Priority = &priority
			p.Status.NominatedNodeName = "n1"
		})}
	}
	nodes := []*corev1.Node{node("n1", "1")}
	equal := snapshot(t, DefaultProfile(), nodes, nominated(0))
	assert.False(t, ask(t, equal, Question{Pod: pod("a", "")}).Fits)
	assert.True(t, ask(t, equal, Question{Pod: pod("a", ""), Gone: []types.UID{"preemptor"}}).Fits)
	lower := snapshot(t, DefaultProfile(), nodes, nominated(-1))
	assert.True(t, ask(t, lower, Question{Pod: pod("a", "")}).Fits)
}

func TestAnAssumedReplacementTakesItsCapacity(t *testing.T) {
	first, second := pod("a", "n1"), pod("b", "n1")
	s := snapshot(t, DefaultProfile(), []*corev1.Node{node("n1", "2"), node("n2", "1")}, []*corev1.Pod{first, second})
	gone := []types.UID{"a", "b"}
	onlyN2 := func(n *corev1.Node) bool { return n.Name == "n2" }
	require.True(t, ask(t, s, Question{Pod: first, Gone: gone, Nodes: onlyN2}).Fits)
	s.Assume(first, "n2")
	assert.False(t, ask(t, s, Question{Pod: second, Gone: gone, Nodes: onlyN2}).Fits)
	assert.True(t, ask(t, s, Question{Pod: second, Gone: gone}).Fits)
	s.Assume(second, "no such node")
}

func TestARefusalInPreFilterHoldsForAllCandidates(t *testing.T) {
	p := pod("a", "", func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{claimVolume("missing")} })
	s := snapshot(t, DefaultProfile(), []*corev1.Node{node("n1", "1"), node("n2", "1")}, nil)
	a := ask(t, s, Question{Pod: p})
	assert.Equal(t, 2, a.Candidates)
	assert.Equal(t, `0/2 nodes are available: persistentvolumeclaim "missing" not found.`, a.Message())
	for _, nodes := range a.Reasons {
		assert.Equal(t, 2, nodes)
	}
}

func TestNodesThatPreFilterLeavesOutHaveItsReason(t *testing.T) {
	p := pod("a", "", func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
					{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}},
				}}},
			},
		}}
	})
	s := snapshot(t, DefaultProfile(), []*corev1.Node{node("n1", "0"), node("n2", "1")}, nil)
	assert.Equal(
		t, "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity].",
		ask(t, s, Question{Pod: p}).Message(),
	)
}

func TestPodsOfOtherSchedulersAreAnError(t *testing.T) {
	s := snapshot(t, DefaultProfile(), nil, nil)
	_, err := s.Fits(t.Context(), Question{Pod: pod("a", "", func(p *corev1.Pod) { p.Spec.SchedulerName = "else" })})
	require.ErrorIs(t, err, ErrUnknownScheduler)
}

func TestQuestionsEndWithTheirContext(t *testing.T) {
	s := snapshot(t, DefaultProfile(), []*corev1.Node{node("n1", "1")}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Fits(ctx, Question{Pod: pod("a", "")})
	require.ErrorIs(t, err, context.Canceled)
}

func TestCloseLeavesNothingRunning(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 5 {
		s, err := newSnapshot(t.Context(), fake.NewClientset(), DefaultProfile(), kept([]*corev1.Node{node("n1", "1")}, nil))
		require.NoError(t, err)
		require.True(t, ask(t, s, Question{Pod: pod("a", "")}).Fits)
		s.Close()
		s.Close()
		_, err = s.Fits(t.Context(), Question{Pod: pod("a", "")})
		require.ErrorContains(t, err, "closed")
	}
	// The condition has a goroutine of its own.
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 10*time.Second, 10*time.Millisecond,
		"%d goroutines before", before)
}

// The answer without pods is that of a snapshot that never had them, also if pods of one owner share their info.
func TestGonePodsLeaveNoTrace(t *testing.T) {
	nodes := []*corev1.Node{node("n1", "8"), node("n2", "8"), node("n3", "8")}
	var pods []*corev1.Pod
	for i := range 24 {
		pods = append(pods, pod(fmt.Sprintf("p%d", i), nodes[i%3].Name, func(p *corev1.Pod) {
			p.Labels = map[string]string{"kind": fmt.Sprint(i % 4)}
			if i%2 == 0 {
				p.Spec.Affinity = antiAffinity(corev1.LabelHostname)
			}
			if i >= 6 {
				p.Spec.Containers[0].Resources.Requests = resources(fmt.Sprint(i % 4))
			}
		}))
	}
	s := stateOf(t, nodes, pods)
	for cut := range len(pods) {
		gone := map[types.UID]bool{"unknown": true}
		for _, p := range pods[:cut] {
			gone[p.UID] = true
		}
		got, want := s.without(gone), stateOf(t, nodes, pods[cut:])
		assert.Len(t, got.affinity, len(want.affinity))
		assert.Len(t, got.antiAffinity, len(want.antiAffinity))
		for i := range want.nodes {
			assert.Equal(t, want.nodes[i].GetRequested(), got.nodes[i].GetRequested())
			assert.Len(t, got.nodes[i].GetPodsWithRequiredAntiAffinity(), len(want.nodes[i].GetPodsWithRequiredAntiAffinity()))
			assert.Equal(t, kinds(want, i), kinds(got, i))
		}
	}
	assert.Len(t, kinds(s, 0), 8, "the state that it came from is as before")
}

// kinds are the labels of a node's pods, sorted.
func kinds(s *state, node int) []string {
	var out []string
	for _, p := range s.nodes[node].GetPods() {
		out = append(out, p.GetPod().Labels["kind"])
	}
	slices.Sort(out)
	return out
}

// Pods that start together need the capacity at the same time, and a proof leaves nothing behind.
func TestPodsThatStartTogetherTakeEachOthersCapacity(t *testing.T) {
	s := snapshot(t, DefaultProfile(), []*corev1.Node{node("a", "2"), node("b", "1")}, nil)
	questions := make([]Question, 4)
	for i := range questions {
		questions[i] = Question{Pod: pod(fmt.Sprint("p", i), "")}
	}
	for range 2 {
		answers, err := s.FitAll(t.Context(), questions[:3])
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "a", "b"}, []string{answers[0].Node, answers[1].Node, answers[2].Node})
		answers, err = s.FitAll(t.Context(), questions)
		require.NoError(t, err)
		require.Len(t, answers, 4)
		assert.False(t, answers[3].Fits)
	}
	s.Assume(pod("other", ""), "b")
	answers, err := s.FitAll(t.Context(), questions[:3])
	require.NoError(t, err)
	assert.False(t, answers[2].Fits, "what was assumed before counts")
	answers, err = s.FitAll(t.Context(), questions[:2])
	require.NoError(t, err)
	assert.True(t, answers[1].Fits)
}

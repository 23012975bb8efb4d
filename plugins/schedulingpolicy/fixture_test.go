// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/decision"
	"berth.dev/berth/plugins/capacitymix"
	"berth.dev/berth/scheduler/upstream"
	"berth.dev/berth/test/plugintest"
)

// fixture is the plugin in a real scheduling framework.
type fixture struct {
	*plugintest.Cluster
	plugin      *SchedulingPolicy
	framework   framework.Framework
	store       *decision.Store
	recorder    *Recorder
	classifiers *capacitymix.Classifiers
	nodes       []*corev1.Node
	pods        []*corev1.Pod
}

func newFixture(tb testing.TB, args *config.SchedulingPolicyArgs, nodes ...*corev1.Node) *fixture {
	tb.Helper()
	f := &fixture{Cluster: plugintest.NewCluster(tb, nodes), nodes: nodes, store: decision.NewStore(clock.RealClock{})}
	f.recorder, f.classifiers = NewRecorder(f.store), &capacitymix.Classifiers{}
	f.framework = f.Framework(tb, Name, func(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		pl, err := NewFactory(f.recorder, f.classifiers, nil, upstream.Admission{})(ctx, args, h)
		f.plugin, _ = pl.(*SchedulingPolicy)
		return pl, err
	})
	f.Start()
	require.NoError(tb, f.plugin.Wait(f.Ctx))
	return f
}

func noArgs() *config.SchedulingPolicyArgs {
	return &config.SchedulingPolicyArgs{SyncTimeoutSeconds: 60, LockNamespace: "berth-system"}
}

// set adds or replaces a policy as the watch would.
func (f *fixture) set(p *v1alpha1.SchedulingPolicy) { f.plugin.policyHandler().OnAdd(p, false) }

// SetPods adds or replaces pods in the cache, as the watch would.
func (f *fixture) SetPods(tb plugintest.TB, pods ...*corev1.Pod) {
	f.Cluster.SetPods(tb, pods...)
	for _, p := range pods {
		f.plugin.podHandler().OnAdd(p, false)
	}
}

// snapshot has the scheduler see pods on their nodes.
func (f *fixture) snapshot(pods ...*corev1.Pod) {
	f.pods = pods
	*f.Snapshot = *cache.NewSnapshot(pods, f.nodes)
}

// infos are all nodes as the scheduler sees them.
func (f *fixture) infos(t require.TestingT) []fwk.NodeInfo {
	all, err := f.Snapshot.NodeInfos().List()
	require.NoError(t, err)
	return all
}

// run runs a scheduling cycle in which the nodes are feasible, up to scoring.
func (f *fixture) run(t require.TestingT, pod *corev1.Pod, nodes []fwk.NodeInfo) (fwk.CycleState, []fwk.NodePluginScores) {
	state := framework.NewCycleState()
	_, status, _ := f.framework.RunPreFilterPlugins(f.Ctx, state, pod)
	require.True(t, status.IsSuccess(), status.Message())
	require.True(t, f.framework.RunPreScorePlugins(f.Ctx, state, pod, nodes).IsSuccess())
	scores, status := f.framework.RunScorePlugins(f.Ctx, state, pod, nodes)
	require.True(t, status.IsSuccess(), status.Message())
	return state, scores
}

// place selects a node as the scheduler does, and reserves it.
func (f *fixture) place(t require.TestingT, pod *corev1.Pod) (string, fwk.CycleState) {
	return f.placeIn(t, pod, f.infos(t))
}

// placeIn is place where these nodes are feasible. The framework scores none if it is one.
func (f *fixture) placeIn(t require.TestingT, pod *corev1.Pod, nodes []fwk.NodeInfo) (string, fwk.CycleState) {
	if len(nodes) == 1 {
		state, name := framework.NewCycleState(), nodes[0].Node().Name
		_, status, _ := f.framework.RunPreFilterPlugins(f.Ctx, state, pod)
		require.True(t, status.IsSuccess(), status.Message())
		require.True(t, f.framework.RunReservePluginsReserve(f.Ctx, state, pod, name).IsSuccess())
		return name, state
	}
	state, scores := f.run(t, pod, nodes)
	node, most, times := "", int64(-1), 0
	for _, s := range scores {
		switch {
		case s.TotalScore > most:
			node, most, times = s.Name, s.TotalScore, 1
		case s.TotalScore == most:
			times++
		}
	}
	require.Equal(t, 1, times, "one node has the highest score, whatever the order of the heap")
	require.True(t, f.framework.RunReservePluginsReserve(f.Ctx, state, pod, node).IsSuccess())
	return node, state
}

// policy governs all pods of namespace shop.
func policy(change ...func(*v1alpha1.SchedulingRules)) *v1alpha1.SchedulingPolicy {
	p := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "all", UID: "policy", Generation: 1}}
	for _, c := range change {
		c(&p.Spec.SchedulingRules)
	}
	return p
}

func preset(name v1alpha1.ScorePreset) func(*v1alpha1.SchedulingRules) {
	return func(r *v1alpha1.SchedulingRules) { r.Score = &v1alpha1.ScoreRules{Preset: name} }
}

func functions(names ...v1alpha1.ScoreFunctionName) func(*v1alpha1.SchedulingRules) {
	return func(r *v1alpha1.SchedulingRules) {
		r.Score = &v1alpha1.ScoreRules{}
		for _, name := range names {
			r.Score.Functions = append(r.Score.Functions, v1alpha1.ScoreFunction{Name: name})
		}
	}
}

func tieBreaker(name v1alpha1.TieBreaker) func(*v1alpha1.SchedulingRules) {
	return func(r *v1alpha1.SchedulingRules) { r.Select = &v1alpha1.SelectRules{TieBreaker: name} }
}

func recorded(mode v1alpha1.RecordMode) func(*v1alpha1.SchedulingRules) {
	return func(r *v1alpha1.SchedulingRules) { r.Decisions = &v1alpha1.DecisionRules{Record: mode} }
}

// node has a zone, and 4 CPUs and 8 GiB of memory.
func node(name, zone string, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: zone, corev1.LabelInstanceTypeStable: "medium",
		}},
		Status: corev1.NodeStatus{Allocatable: resources("4", "8Gi")},
	}
	n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
	for _, change := range changes {
		change(n)
	}
	return n
}

func labelled(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// pod is one of the ReplicaSet web, on a node, "" for none.
func pod(name, on string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: new(true)},
		}},
		Spec: corev1.PodSpec{NodeName: on, SchedulerName: "berth-scheduler", Containers: []corev1.Container{
			{Name: "c", Resources: corev1.ResourceRequirements{Requests: resources("500m", "1Gi")}},
		}},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func requests(cpu, memory string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = resources(cpu, memory) }
}

// fleetOf are a number of nodes, in three zones.
func fleetOf(n int) (nodes []*corev1.Node) {
	for i := range n {
		nodes = append(nodes, node(fmt.Sprintf("n%02d", i), fmt.Sprint("zone-", i%3)))
	}
	return nodes
}

// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
)

// cpuAndMemory are the resources that in-tree plugins score by default.
var cpuAndMemory = []schedulerconfig.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}}

// inTreeScores are the scores of an in-tree plugin for a pod, by node.
func inTreeScores(t require.TestingT, f *fixture, pl fwk.Plugin, p *corev1.Pod) map[string]int64 {
	state := framework.NewCycleState()
	infos := f.infos(t)
	status := pl.(fwk.PreScorePlugin).PreScore(f.Ctx, state, p, infos)
	require.True(t, status.IsSuccess(), status.Message())
	scores := map[string]int64{}
	for _, n := range infos {
		s, status := pl.(fwk.ScorePlugin).Score(f.Ctx, state, p, n)
		require.True(t, status.IsSuccess(), status.Message())
		scores[n.Node().Name] = s
	}
	return scores
}

// tolerance is what a millicore, to which requests are rounded, can change in a score.
const tolerance = 0.05

// agrees requires that no node that the in-tree plugin scores higher has a lower value here, and returns how many pairs it
// compared. The in-tree plugin cuts off decimals, so that nodes of different values can have the same score there, and scores
// that differ by less than a margin mean nothing.
func agrees(t require.TestingT, inTree map[string]int64, ours *table, margin int64) (compared int) {
	for i := range ours.candidates {
		for j := range ours.candidates {
			a, b := &ours.candidates[i], &ours.candidates[j]
			if inTree[a.Node] > inTree[b.Node]+margin {
				compared++
				require.GreaterOrEqual(t, a.Score, b.Score-tolerance, "%s %d, %s %d", a.Node, inTree[a.Node], b.Node, inTree[b.Node])
			}
		}
	}
	return compared
}

// The in-tree plugin scores by how much the pod improves the balance of a node. Where all nodes are balanced before, and used
// to the same degree with the pod, that is the balance with the pod, which is all that differs here.
func TestBalancedRanksAsNodeResourcesBalancedAllocation(t *testing.T) {
	f := newFixture(t, noArgs(), fleetOf(6)...)
	f.set(policy(preset(v1alpha1.ScorePresetBalanced)))
	pl, err := noderesources.NewBalancedAllocation(f.Ctx, &schedulerconfig.NodeResourcesBalancedAllocationArgs{Resources: cpuAndMemory}, f.framework, feature.Features{})
	require.NoError(t, err)
	differ := 0
	rapid.Check(t, func(t *rapid.T) {
		const podCPU, podMemory = 1000, 4 << 30
		degree := rapid.Float64Range(0.4, 0.9).Draw(t, "degree")
		var pods []*corev1.Pod
		for i, n := range f.nodes {
			cpu, memory := rapid.Int64Range(4, 32).Draw(t, "cpu")*1000, rapid.Int64Range(16, 128).Draw(t, "memory")<<30
			n.Status.Allocatable[corev1.ResourceCPU] = *resource.NewMilliQuantity(cpu, resource.DecimalSI)
			n.Status.Allocatable[corev1.ResourceMemory] = *resource.NewQuantity(memory, resource.BinarySI)
			before := degree - (float64(podCPU)/float64(cpu)+float64(podMemory)/float64(memory))/2
			p := pod(fmt.Sprint("r", i), n.Name)
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
				corev1.ResourceCPU:    *resource.NewMilliQuantity(max(1, int64(before*float64(cpu))), resource.DecimalSI),
				corev1.ResourceMemory: *resource.NewQuantity(max(1, int64(before*float64(memory))), resource.BinarySI),
			}
			pods = append(pods, p)
		}
		f.snapshot(pods...)
		x := pod("x", "", requests("1", "4Gi"))
		state, _ := f.run(t, x, f.infos(t))
		differ += agrees(t, inTreeScores(t, f, pl, x), read(state).table, 1)
	})
	require.Positive(t, differ, "nodes are compared")
}

// Where the fragmentation is the same on all nodes, Pack is the strategy MostAllocated.
func TestPackRanksAsMostAllocated(t *testing.T) {
	f := newFixture(t, noArgs(), fleetOf(6)...)
	f.set(policy(preset(v1alpha1.ScorePresetPack)))
	args := &schedulerconfig.NodeResourcesFitArgs{ScoringStrategy: &schedulerconfig.ScoringStrategy{Type: schedulerconfig.MostAllocated, Resources: cpuAndMemory}}
	pl, err := noderesources.NewFit(f.Ctx, args, f.framework, feature.Features{})
	require.NoError(t, err)
	differ := 0
	rapid.Check(t, func(t *rapid.T) {
		var pods []*corev1.Pod
		for i, n := range f.nodes {
			cpu := rapid.Int64Range(2, 64).Draw(t, "cpu") * 1000
			n.Status.Allocatable[corev1.ResourceCPU] = *resource.NewMilliQuantity(cpu, resource.DecimalSI)
			n.Status.Allocatable[corev1.ResourceMemory] = *resource.NewQuantity(cpu<<32/1000, resource.BinarySI)
			used := cpu * rapid.Int64Range(0, 6).Draw(t, "used") / 8
			if used == 0 {
				continue
			}
			p := pod(fmt.Sprint("r", i), n.Name)
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
				corev1.ResourceCPU:    *resource.NewMilliQuantity(used, resource.DecimalSI),
				corev1.ResourceMemory: *resource.NewQuantity(used<<32/1000, resource.BinarySI),
			}
			pods = append(pods, p)
		}
		f.snapshot(pods...)
		x := pod("x", "", requests("250m", "1Gi"))
		state, _ := f.run(t, x, f.infos(t))
		differ += agrees(t, inTreeScores(t, f, pl, x), read(state).table, 0)
	})
	require.Positive(t, differ, "nodes are compared")
}

// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
)

// drawn is a small cluster of nodes that differ, and runs of identical pods: with and without a mix, with and without a
// limit that has rules for nodes.
func drawn(t *rapid.T) *cluster {
	s := Scenario{Nodes: rapid.IntRange(2, 16).Draw(t, "nodes"), OnDemandPerMille: rapid.SampledFrom([]int{200, 500}).Draw(t, "on-demand"), Groups: 1, Limits: 3}
	c := newCluster(s, BerthBatching)
	for i := range c.nodes {
		c.nodes[i].Status.Allocatable[corev1.ResourceCPU] = *resource.NewQuantity(rapid.Int64Range(1, 16).Draw(t, "cpu"), resource.DecimalSI)
		c.nodes[i].Labels["disk"] = rapid.SampledFrom([]string{"ssd", "hdd"}).Draw(t, "disk")
	}
	for run := range rapid.IntRange(1, 8).Draw(t, "runs") {
		ns := rapid.SampledFrom([]string{namespace, other}).Draw(t, "namespace")
		s.Ungoverned = ns == other || rapid.IntRange(0, 2).Draw(t, "ungoverned") > 0
		size := rapid.SampledFrom([]string{"", "1", "2", "2"}).Draw(t, "limit")
		cpu := rapid.SampledFrom([]string{"250m", "1"}).Draw(t, "requests")
		for i := range rapid.IntRange(1, 5).Draw(t, "pods") {
			p := s.pod(0, 100*run+i, len(c.pods))
			if p.Namespace = ns; ns == other {
				p.OwnerReferences = nil // PreEnqueue, which is not run here, would look it up
			}
			delete(p.Labels, v1alpha1.ResourceLimitLabel)
			if size != "" {
				p.Labels[v1alpha1.ResourceLimitLabel] = "size-" + size
			}
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
			c.pods = append(c.pods, p)
		}
	}
	return c
}

// other is a namespace without a mix: scheduler and labels of its pods, all that kube-scheduler's plugins sign of them, are
// those of the pods in the first one.
const other = "other"

// sizesOf are the limits of both namespaces. Two of three have rules for nodes, and these differ.
func sizesOf(s Scenario) (all v1alpha1.ResourceLimitList) {
	for ns, disk := range map[string]string{namespace: "ssd", other: "hdd"} {
		list := s.limits()
		builders.SizeOnNodesWith("disk", disk)(&list.Items[1].Spec)
		builders.SizePrefers("disk", disk)(&list.Items[2].Spec)
		for _, l := range list.Items {
			l.Namespace, l.UID = ns, types.UID(ns+l.Name)
			all.Items = append(all.Items, l)
		}
	}
	return all
}

// policiesOf are policies of the namespaces: none, or one whose pods can be signed or not.
func policiesOf(t *rapid.T) (all v1alpha1.SchedulingPolicyList) {
	for _, ns := range []string{namespace, other} {
		if rapid.Bool().Draw(t, "policy") {
			continue
		}
		preset := rapid.SampledFrom([]v1alpha1.ScorePreset{
			v1alpha1.ScorePresetBalanced, v1alpha1.ScorePresetPack, v1alpha1.ScorePresetSpread, v1alpha1.ScorePresetCost,
		}).Draw(t, "preset")
		tie := rapid.SampledFrom([]v1alpha1.TieBreaker{v1alpha1.TieBreakerName, v1alpha1.TieBreakerLeastLoaded}).Draw(t, "tie")
		all.Items = append(all.Items, policy(ns, &v1alpha1.ScoreRules{Preset: preset}, &v1alpha1.SelectRules{TieBreaker: tie}))
	}
	return all
}

// totals are the scores that a pod's feasible nodes have in the snapshot, by name.
func (r *runner) totals(t require.TestingT, pod *corev1.Pod) map[string]int64 {
	state := framework.NewCycleState()
	infos, err := r.framework.SnapshotSharedLister().NodeInfos().List()
	require.NoError(t, err)
	result, status, _ := r.framework.RunPreFilterPlugins(r.ctx, state, pod)
	if !status.IsSuccess() {
		return nil
	}
	var feasible []fwk.NodeInfo
	for _, n := range infos {
		if (result.AllNodes() || result.NodeNames.Has(n.Node().Name)) && r.framework.RunFilterPlugins(r.ctx, state, pod, n).IsSuccess() {
			feasible = append(feasible, n)
		}
	}
	if len(feasible) == 0 {
		return nil
	}
	require.True(t, r.framework.RunPreScorePlugins(r.ctx, state, pod, feasible).IsSuccess())
	scores, status := r.framework.RunScorePlugins(r.ctx, state, pod, feasible)
	require.True(t, status.IsSuccess(), status.Message())
	all := map[string]int64{}
	for _, s := range scores {
		all[s.Name] = s.TotalScore
	}
	return all
}

// Whether a pod is batched must not show: the node that it gets is feasible and, of all feasible ones, has the best score,
// as they are found without a signature. Nodes of equal score are drawn by lot, so the node itself may differ.
func TestBatchedPodsGetTheBestNodes(t *testing.T) {
	batched, placed := int64(0), int64(0)
	rapid.Check(t, func(rt *rapid.T) {
		c := drawn(rt)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, err := runnerIn(ctx, BerthBatching, c, custom{limits: sizesOf(c.scenario), policies: policiesOf(rt)})
		require.NoError(rt, err)
		var want map[string]int64
		r.before = func(pod *corev1.Pod) {
			require.NoError(rt, updateSnapshot(r.scheduler, r.framework))
			want = r.totals(rt, pod)
		}
		for i := range c.pods {
			_, node, err := r.place(&c.pods[i])
			require.NoError(rt, err)
			if node == "" {
				require.Empty(rt, want, "pod %d", i)
				continue
			}
			placed++
			require.Contains(rt, want, node, "pod %d", i)
			require.Equal(rt, slices.Max(slices.Collect(maps.Values(want))), want[node], "pod %d is on %s, of %v", i, node, want)
		}
		batched += r.framework.(interface{ TotalBatchedPods() int64 }).TotalBatchedPods()
	})
	require.Positive(t, batched, "something is compared")
	require.Less(t, batched, placed)
	t.Logf("%d of %d pods were batched", batched, placed)
}

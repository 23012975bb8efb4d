// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/perf/bench"
)

const (
	namespace = "drained"
	// spreadLabel has five values, one of them for on-demand nodes: what stock users spread over for four in five on spot.
	spreadLabel = "example.com/capacity-spread"
	// groupSize is how many pods a workload has.
	groupSize = 100
	creators  = 32
)

// rule is the mix of every workload. One node in five is on-demand.
var rule = split.New(80, 0)

// size is how much there is to schedule.
type size struct{ nodes, pods int }

func (s size) groups() int { return (s.pods + groupSize - 1) / groupSize }

func typeOf(node string) capacity.Type {
	switch {
	case strings.HasPrefix(node, "spot-"):
		return capacity.Spot
	case strings.HasPrefix(node, "on-demand-"):
		return capacity.OnDemand
	}
	return capacity.Unknown
}

// nodes are objects only, Ready from the start.
func (s size) specs() []cluster.NodeSpec {
	spread := func(t string) func(*cluster.NodeSpec) {
		i := 0
		return func(n *cluster.NodeSpec) {
			value := t
			if t == "spot" {
				value = fmt.Sprintf("spot-%d", i%4)
			}
			n.Labels = map[string]string{spreadLabel: value}
			i++
		}
	}
	onDemand := s.nodes / 5
	return append(cluster.Nodes("spot", s.nodes-onDemand, spread("spot")), cluster.Nodes("on-demand", onDemand, spread("on-demand"))...)
}

func app(group int) string { return fmt.Sprintf("app-%03d", group) }

// groupOf is the workload of a pod, by the pod's name.
func groupOf(pod string) string { return pod[:strings.LastIndexByte(pod, '-')] }

// fill creates the nodes, and the workloads with their mixes. It returns the
// workloads by group. No one controls them: the test makes their pods itself.
func (p *plane) fill(ctx context.Context, s size) []metav1.OwnerReference {
	p.t.Helper()
	require.NoError(p.t, p.CreateNamespace(ctx, namespace))
	require.NoError(p.t, p.AddNodes(ctx, s.specs()...))
	c, err := cluster.NewClient(p.Config())
	require.NoError(p.t, err)
	owners := make([]metav1.OwnerReference, s.groups())
	for g := range owners {
		rs := builders.ReplicaSet(app(g), groupSize)
		rs.Namespace = namespace
		require.NoError(p.t, c.Create(ctx, rs))
		cm := builders.CapacityMix(app(g), rule.SpotPercent, rule.MinOnDemand)
		cm.Namespace = namespace
		require.NoError(p.t, c.Create(ctx, cm))
		owners[g] = *metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	}
	return owners
}

// shape makes the pods of a peer: the i-th of its workload.
type shape func(t *corev1.PodTemplateSpec, group, i int)

// plain pods have no rule about where they run.
func plain(*corev1.PodTemplateSpec, int, int) {}

// spread pods are spread over the five values, hard.
func spread(t *corev1.PodTemplateSpec, group, _ int) {
	t.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: spreadLabel, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: builders.Labels(app(group))},
	}}
}

// typed pods require the type that their place in the workload has, as if an admission webhook had written it.
func typed(t *corev1.PodTemplateSpec, _, i int) {
	builders.RequireNodeLabel(cluster.CapacityTypeLabel, corev1.NodeSelectorOpIn, rule.TypeOf(i).String())(t)
}

func makePod(owner metav1.OwnerReference, group, i int, s shape) *corev1.Pod {
	p := builders.Pod(app(group), fmt.Sprintf("%s-%d", app(group), i), builders.ByDefault, builders.OwnedBy(owner),
		func(t *corev1.PodTemplateSpec) { s(t, group, i) })
	p.Namespace = namespace
	return p
}

// createPods makes all pods, the first of every workload first.
func (p *plane) createPods(ctx context.Context, s size, owners []metav1.OwnerReference, as shape) {
	p.t.Helper()
	pods := p.Client().CoreV1().Pods(namespace)
	_, took, err := bench.Saturated(creators, s.pods, func(n int) error {
		group, i := n%len(owners), n/len(owners)
		_, err := pods.Create(ctx, makePod(owners[group], group, i, as), metav1.CreateOptions{})
		return err
	})
	require.NoError(p.t, err)
	p.t.Logf("%d pods created in %.1f s", s.pods, took.Seconds())
}

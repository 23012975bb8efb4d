// SPDX-License-Identifier: Apache-2.0

package alpha_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/simulation"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

const rate = "example.com/interruptions"

// seldom tolerates spot nodes that are interrupted seldom (KEP-5471).
var seldom = v1alpha1.Toleration{Key: rate, Operator: corev1.TolerationOpLt, Value: "50", Effect: corev1.TaintEffectNoSchedule}

// tolerant is a mix with that toleration for spot.
func tolerant(app string) *v1alpha1.CapacityMix {
	return builders.CapacityMix(app, 50, 0, func(cm *v1alpha1.CapacityMix) {
		cm.Spec.Tolerations = &v1alpha1.TolerationsByType{Spot: []v1alpha1.Toleration{seldom}}
	})
}

// rated are two spot nodes that the toleration matches, two that it does not, and on-demand nodes.
func rated() []cluster.NodeSpec {
	spot := cluster.Nodes("spot", 4)
	for i := range spot {
		value := "20"
		if i >= 2 {
			value = "60"
		}
		spot[i].Taints = []corev1.Taint{{Key: rate, Value: value, Effect: corev1.TaintEffectNoSchedule}}
	}
	return append(spot, cluster.Nodes("on-demand", 2)...)
}

// requireSeldom demands that spot replicas are on nodes that the toleration matches.
func requireSeldom(w *testenv.World, pods []corev1.Pod) (spot []corev1.Pod) {
	w.T.Helper()
	onSpot := w.Types()
	for _, p := range pods {
		if onSpot[p.Spec.NodeName] == capacity.Spot {
			spot = append(spot, p)
			assert.Contains(w.T, []string{"spot-0", "spot-1"}, p.Spec.NodeName, p.Name)
		}
	}
	return spot
}

func tolerates(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool { return t == corev1.Toleration(seldom) })
}

func TestGatedPodsGetTolerationsThatCompare(t *testing.T) {
	w := newWorld(t, rated()...)
	w.Create(tolerant("web"), builders.Deployment("web", 8, builders.Gated))
	pods := w.RequireExact("web", split.New(50, 0), 8)
	spot := requireSeldom(w, pods)
	for _, p := range pods {
		assert.Equal(t, slices.ContainsFunc(spot, func(s corev1.Pod) bool { return s.UID == p.UID }), tolerates(&p), p.Name)
	}

	require.NoError(t, simulation.SetFeatureGates(map[string]bool{comparison: true}))
	profile, err := simulation.LoadProfile(testenv.Path(testenv.SecondScheduler))
	require.NoError(t, err)
	s, err := simulation.Take(w.Ctx, w.Cluster.Config(), profile)
	require.NoError(t, err)
	defer s.Close()
	for node, fits := range map[string]bool{"spot-0": true, "spot-2": false} {
		a, err := s.Fits(w.Ctx, simulation.Question{
			Pod: &spot[0], Gone: []types.UID{spot[0].UID}, Wants: capacity.Spot, Tolerations: []corev1.Toleration{corev1.Toleration(seldom)},
			Nodes: func(n *corev1.Node) bool { return n.Name == node },
		})
		require.NoError(t, err)
		assert.Equal(t, fits, a.Fits, "%s: %s", node, a.Message())
	}
}

func TestTheWebhookAddsTolerationsThatCompare(t *testing.T) {
	w := newWorld(t, rated()...)
	w.Webhook(func(c *controller.Configuration) { c.SchedulerFeatureGates = map[string]bool{comparison: true} })
	w.Create(tolerant("web"), builders.Deployment("web", 8))
	pods := w.RequireExact("web", split.New(50, 0), 8)
	requireSeldom(w, pods)
	for _, p := range pods {
		assert.True(t, tolerates(&p), p.Name)
	}
}

// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/clitest"
	"berth.dev/berth/internal/cli/live"
	"berth.dev/berth/internal/cli/mix/plan"
	"berth.dev/berth/internal/cli/printers"
)

func TestStatus(t *testing.T) {
	c := clitest.OneOfEach().Cluster(t)
	for name, output := range map[string]string{"status.txt": "table", "status-wide.txt": printers.Wide, "status.json": printers.JSON, "status.yaml": printers.YAML} {
		o, out, errOut := clitest.Screen(output)
		require.NoError(t, showStatus(o, statusOf(c, ""), "shop"))
		clitest.Golden(t, name, out.String())
		if output == "table" {
			clitest.Golden(t, "status.stderr", errOut.String())
		}
	}
	o, out, _ := clitest.Screen("table")
	require.NoError(t, showStatus(o, statusOf(c, "web"), ""))
	clitest.Golden(t, "status-mix-all-namespaces.txt", out.String())
	o, out, errOut := clitest.Screen("table")
	require.NoError(t, showStatus(o, &Status{}, "empty"))
	assert.Empty(t, out.String())
	assert.Equal(t, "No mixes and no governed workloads found in namespace empty.\n", errOut.String())
}

func TestStatusWithoutThePodsSaysThatItDoesNotKnow(t *testing.T) {
	s := clitest.OneOfEach()
	s.Pods = nil
	c := s.Cluster(t)
	c.Problems = []live.Problem{{Resource: "pods"}}
	o, out, _ := clitest.Screen("table")
	require.NoError(t, showStatus(o, statusOf(c, "web"), "shop"))
	assert.Contains(t, out.String(), "<unknown>")
	assert.NotContains(t, out.String(), "True")
}

func TestNodes(t *testing.T) {
	c := clitest.OneOfEach().Cluster(t)
	for name, unknown := range map[string]bool{"nodes.txt": false, "nodes-unknown.txt": true} {
		o, out, _ := clitest.Screen("table")
		require.NoError(t, showNodes(o, nodesOf(c, unknown)))
		clitest.Golden(t, name, out.String())
	}
}

func TestExplain(t *testing.T) {
	s := clitest.OneOfEach()
	s.Pods[2].Spec.NodeSelector = map[string]string{"karpenter.sh/capacity-type": "on-demand"}
	s.Pods[1].Annotations[v1alpha1.PodDeletionCostAnnotation] = "500"
	s.Pods[0].Annotations[v1alpha1.SpotPercentAnnotation] = "lots"
	event := &corev1.Event{InvolvedObject: corev1.ObjectReference{Name: "api-7dd8c6474c-1"}, LastTimestamp: clitest.Ago(20 * time.Minute), Message: "Scheduled on on-demand node o1: no spot capacity for slot 1"}
	clitest.Golden(t, "explain.txt", explained(t, s.Cluster(t), event))
}

// planned is the plan of mixes for a shop, with capacity for so many replacements.
func planned(t *testing.T, s *clitest.Shop, room plan.Room, wanted ...*wantedMix) *Plan {
	t.Helper()
	c := s.Cluster(t)
	was := before(c, wanted)
	var mixes []*v1alpha1.CapacityMix
	for _, w := range wanted {
		mixes = append(mixes, w.mix)
	}
	result, err := plan.Change(context.Background(), c, mixes, room, clitest.Now)
	require.NoError(t, err)
	return planOf(was, c, wanted, result)
}

// changed is a mix of the shop with other values.
func changed(s *clitest.Shop, name string, change func(*v1alpha1.CapacityMix)) *wantedMix {
	for _, m := range s.Mixes {
		if m.Name == name {
			then := m.DeepCopy()
			change(then)
			return &wantedMix{mix: then, old: m}
		}
	}
	m := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(clitest.Now)}}
	change(m)
	return &wantedMix{mix: m, unvalidated: "capacitymixes.berth.dev is forbidden"}
}

func show(t *testing.T, p *Plan) string {
	t.Helper()
	o, out, _ := clitest.Screen("table")
	require.NoError(t, showPlan(o, p))
	return out.String()
}

func TestPlan(t *testing.T) {
	s := &clitest.Shop{}
	s.Node("s1", "spot")
	s.Node("o1", "on-demand")
	s.Mix("web", 70, 1)
	s.Deployment("web", nil, "o1", "s1", "s1", "o1", "s1", "s1", "o1", "s1", "s1", "s1")
	s.Pods[9].Annotations["karpenter.sh/do-not-disrupt"] = "true"
	clitest.Golden(t, "plan-changed.txt", show(t, planned(t, s, plan.Ample{}, changed(s, "web", func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent, m.Spec.MinOnDemand = 20, 2 }))))

	s.Budget("web", "web", 0)
	clitest.Golden(t, "plan-blocked.txt", show(t, planned(t, s, plan.Ample{}, changed(s, "web", func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent = 60 }))))

	// A new mix for everything: what is governed already stays with the older one.
	s.Deployment("free", nil, "s1", "s1")
	s.Pods[10].Status.Conditions[0].Status = corev1.ConditionFalse
	clitest.Golden(t, "plan-created.txt", show(t, planned(t, s, plan.Ample{}, changed(s, "all", func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent = 50 }))))

	// A selector that lets go.
	clitest.Golden(t, "plan-ungoverned.txt", show(t, planned(t, s, plan.Ample{}, changed(s, "web", func(m *v1alpha1.CapacityMix) { m.Spec.Selector.MatchLabels["tier"] = "front" }))))
	clitest.Golden(t, "plan-unchanged.txt", show(t, planned(t, s, plan.Ample{}, changed(s, "web", func(*v1alpha1.CapacityMix) {}))))

	out, err := yaml.Marshal(planned(t, s, plan.Ample{}, changed(s, "web", func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent = 60 })))
	require.NoError(t, err)
	clitest.Golden(t, "plan-blocked.yaml", string(out))
}

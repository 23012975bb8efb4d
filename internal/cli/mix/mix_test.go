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

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/cli/show"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/test/clitest"
)

func TestStatus(t *testing.T) {
	c := clitest.OneOfEach().Cluster(t)
	show := func(o *command.Options, c *overview.Cluster) error {
		s, slots := (&chosen{}).of(c)
		return showStatus(o, s, "shop", slots)
	}
	clitest.Goldens(t, "status.stderr", map[string]string{
		"status.txt": printers.Text, "status-wide.txt": printers.Wide, "status.json": printers.JSON, "status.yaml": printers.YAML,
	}, func(o *command.Options) error { return show(o, c) })
	out, _ := clitest.Printed(t, printers.Text, func(o *command.Options) error { return showStatus(o, overview.StatusOf(c, "web"), "", nil) })
	clitest.Golden(t, "status-mix-all-namespaces.txt", out)
	out, errOut := clitest.Printed(t, printers.Text, func(o *command.Options) error { return showStatus(o, &overview.Status{}, "empty", nil) })
	assert.Empty(t, out)
	assert.Equal(t, "No mixes and no governed workloads found in namespace empty.\n", errOut)
}

func TestStatusHasTheFloor(t *testing.T) {
	s := clitest.OneOfEach()
	m := s.Mixes[0]
	m.Spec.ProtectFloor, m.Status.ObservedGeneration = true, m.Generation
	m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionFloorProtected, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonOverlappingBudget, Message: "why",
	})
	status := overview.StatusOf(s.Cluster(t), m.Name)
	shown := func(format string) (string, string) {
		return clitest.Printed(t, format, func(o *command.Options) error { return showStatus(o, status, "shop", nil) })
	}
	out, errOut := shown(printers.Wide)
	assert.Contains(t, out, "FLOOR")
	assert.Contains(t, out, "OverlappingBudget")
	assert.Contains(t, errOut, "the floor of CapacityMix shop/"+m.Name+" is not protected: OverlappingBudget: why")
	out, _ = shown(printers.JSON)
	assert.Contains(t, out, `"protected": false`)
}

func TestStatusWithoutThePodsReportsUnknown(t *testing.T) {
	s := clitest.OneOfEach()
	s.Pods = nil
	c := s.Cluster(t)
	c.Problems = []overview.Problem{{Resource: "pods"}}
	out, _ := clitest.Printed(t, printers.Text, func(o *command.Options) error { return showStatus(o, overview.StatusOf(c, "web"), "shop", nil) })
	assert.Contains(t, out, "<unknown>")
	assert.NotContains(t, out, "True")
}

func TestNodes(t *testing.T) {
	c := clitest.OneOfEach().Cluster(t)
	for name, unknown := range map[string]bool{"nodes.txt": false, "nodes-unknown.txt": true} {
		clitest.Goldens(t, "", map[string]string{name: printers.Text}, func(o *command.Options) error { return show.Nodes(o, overview.NodesOf(c, unknown, nil)) })
	}
}

func TestDomains(t *testing.T) {
	c := clitest.OneOfEach().Cluster(t)
	now := time.Unix(1_800_000_000, 0)
	table := interruptions.Table{Keys: c.Profile.Args.SpreadSpotOver}
	settings := interruptions.Settings{SharePercent: 20, Quarantine: 10 * time.Minute, Longest: time.Hour}
	table, _ = table.Observe(interruptions.Interruption{Node: "a", Domain: "z/m5"}, now, settings)
	table, _ = table.Observe(interruptions.Interruption{Node: "b", Domain: "a/m5", Staying: 9}, now, settings)
	d := overview.DomainsOf(c)
	d.Add(&table, now)
	clitest.Goldens(t, "", map[string]string{"domains.txt": printers.Text, "domains.json": printers.JSON}, func(o *command.Options) error {
		return show.Domains(o, d)
	})
	out, _ := clitest.Printed(t, printers.Text, func(o *command.Options) error { return show.Domains(o, overview.DomainsOf(c)) })
	assert.Contains(t, out, "?", "unknown is not 0")
}

func TestExplain(t *testing.T) {
	s := clitest.OneOfEach()
	s.Pods[2].Spec.NodeSelector = map[string]string{"karpenter.sh/capacity-type": "on-demand"}
	s.Pods[1].Annotations[v1alpha1.PodDeletionCostAnnotation] = "500"
	s.Pods[1].ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kubectl-annotate", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:controller.kubernetes.io/pod-deletion-cost":{}}}}`),
	}}
	s.Pods[0].Annotations[v1alpha1.SpotPercentAnnotation] = "lots"
	event := &corev1.Event{InvolvedObject: corev1.ObjectReference{Name: "api-7dd8c6474c-1"}, LastTimestamp: clitest.Ago(20 * time.Minute), Message: "Scheduled on on-demand node o1: no spot capacity for slot 1"}
	clitest.Golden(t, "explain.txt", explained(t, s.Cluster(t), event))
}

// planned is the plan of a mix for a shop, with capacity for all replacements.
func planned(t *testing.T, s *clitest.Shop, wanted overview.MixChange) *overview.Plan {
	t.Helper()
	p, err := overview.PlanOf(context.Background(), s.Cluster(t), []overview.MixChange{wanted}, overview.Ample{}, clitest.Now)
	require.NoError(t, err)
	return p
}

// changed is a mix of the shop with other values.
func changed(s *clitest.Shop, name string, change func(*v1alpha1.CapacityMix)) overview.MixChange {
	for _, m := range s.Mixes {
		if m.Name == name {
			then := m.DeepCopy()
			change(then)
			return overview.MixChange{Then: then, Now: m}
		}
	}
	m := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(clitest.Now)}}
	change(m)
	return overview.MixChange{Then: m, Unvalidated: "capacitymixes.berth.dev is forbidden"}
}

// golden compares the plan of a mix, with capacity for all replacements, with a golden file.
func golden(t *testing.T, format, file string, s *clitest.Shop, wanted overview.MixChange) {
	t.Helper()
	p := planned(t, s, wanted)
	clitest.Goldens(t, "", map[string]string{file: format}, func(o *command.Options) error { return showPlan(o, p) })
}

func TestPlan(t *testing.T) {
	s := &clitest.Shop{}
	s.Node("s1", "spot")
	s.Node("o1", "on-demand")
	s.Mix("web", 70, 1)
	s.Deployment("web", nil, "o1", "s1", "s1", "o1", "s1", "s1", "o1", "s1", "s1", "s1")
	s.Pods[9].Annotations["karpenter.sh/do-not-disrupt"] = "true"
	golden(t, printers.Text, "plan-changed.txt", s, changed(s, "web", func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent, m.Spec.MinOnDemand = 20, 2 }))

	s.Budget("web", "web", 0)
	golden(t, printers.Text, "plan-blocked.txt", s, changed(s, "web", func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent = 60 }))

	// A new mix for everything: what is governed already stays with the older one.
	s.Deployment("free", nil, "s1", "s1")
	s.Pods[10].Status.Conditions[0].Status = corev1.ConditionFalse
	golden(t, printers.Text, "plan-created.txt", s, changed(s, "all", func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent = 50 }))

	// A selector that lets go.
	golden(t, printers.Text, "plan-ungoverned.txt", s, changed(s, "web", func(m *v1alpha1.CapacityMix) { m.Spec.Selector.MatchLabels["tier"] = "front" }))
	golden(t, printers.Text, "plan-unchanged.txt", s, changed(s, "web", func(*v1alpha1.CapacityMix) {}))

	golden(t, printers.YAML, "plan-blocked.yaml", s, changed(s, "web", func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent = 60 }))
}

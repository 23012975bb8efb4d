// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/internal/mix/suggest"
	"berth.dev/berth/test/clitest"
)

// candidates is a shop of workloads that no mix governs, but for one.
func candidates() *clitest.Shop {
	s := &clitest.Shop{}
	s.Node("o1", "on-demand")
	s.Node("s1", "spot")
	s.Node("x", "")
	s.Mix("web", 50, 1)
	s.Deployment("web", nil, "o1", "s1", "o1", "s1")
	s.Deployment("front", nil, "o1", "o1", "o1", "o1", "o1")
	s.Deployment("pays", nil, "o1", "o1", "o1", "o1")
	s.Budget("pays", "pays", 1)
	s.Deployment("single", nil, "o1")
	s.Deployment("far", nil, "x", "x")
	for _, p := range s.Deployment("kept", nil, "o1", "o1") {
		p.Annotations["karpenter.sh/do-not-disrupt"] = "true"
	}
	for i := range 3 {
		s.Owned("db", fmt.Sprint("db-", i), "o1", "apps/v1", "StatefulSet", "db")
	}
	s.Pod("lonely", "lonely", "o1")
	s.Owned("agent", "agent-1", "s1", "apps/v1", "DaemonSet", "agent")
	few := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("100Mi")}
	all := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("8Gi")}
	for _, n := range s.Nodes() {
		n.Labels[corev1.LabelInstanceTypeStable], n.Labels[corev1.LabelTopologyRegion] = "m5.large", "us-east-1"
		n.Status.Capacity, n.Status.Allocatable = all, all
	}
	for _, p := range s.Pods {
		p.Spec.Containers = []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: few}}}
		if p.Labels["app"] == "front" {
			p.Spec.SchedulerName = "default-scheduler"
		}
	}
	return s
}

func suggestions(t *testing.T, c *overview.Cluster, selector labels.Selector) *overview.Suggestions {
	t.Helper()
	book, err := prices.New(prices.Options{})
	require.NoError(t, err)
	return overview.Suggest(overview.SuggestInput{Cluster: c, Selector: selector, Book: book, Now: clitest.Now})
}

func TestSuggest(t *testing.T) {
	s := suggestions(t, candidates().Cluster(t), nil)
	clitest.Goldens(t, "", map[string]string{
		"suggest.txt": printers.Text, "suggest-wide.txt": printers.Wide, "suggest.json": printers.JSON, "suggest.yaml": printers.YAML,
	}, func(o *command.Options) error { return showSuggestions(o, s, "shop") })
	out, errOut := clitest.Printed(t, printers.Text, func(o *command.Options) error {
		return showSuggestions(o, suggestions(t, (&clitest.Shop{}).Cluster(t), nil), "empty")
	})
	assert.Empty(t, out)
	assert.Equal(t, "No workloads found in namespace empty.\n", errOut)
	out, _ = clitest.Printed(t, printers.Text, func(o *command.Options) error { return showSuggestions(o, s, "") })
	assert.True(t, strings.HasPrefix(out, "NAMESPACE"), "with -A")
	selected := suggestions(t, candidates().Cluster(t), labels.SelectorFromSet(labels.Set{"app": "db"}))
	require.Len(t, selected.Suggestions, 1)
	assert.Equal(t, "db", selected.Suggestions[0].Name)
}

// What is printed can be applied as it is: the fields exist, and the mix is valid.
func TestSuggestedMixesAreValidAndInOrder(t *testing.T) {
	s := suggestions(t, candidates().Cluster(t), nil)
	out, _ := clitest.Printed(t, printers.YAML, func(o *command.Options) error { return showSuggestions(o, s, "shop") })
	var want, got []string
	for _, one := range s.Suggestions {
		if one.Mix != nil && one.GovernedBy == "" {
			want = append(want, one.Name)
		}
	}
	for i, text := range strings.Split(out, "---\n")[1:] {
		m := &v1alpha1.CapacityMix{}
		require.NoError(t, yaml.UnmarshalStrict([]byte(text), m))
		_, _, err := governing.FromCapacityMix(m)
		require.NoError(t, err)
		assert.Equal(t, "shop", m.Namespace)
		assert.Equal(t, map[string]string{"app": m.Name}, m.Spec.Selector.MatchLabels)
		assert.Contains(t, text, fmt.Sprintf("# Step %d of %d: ", i+1, len(want)))
		got = append(got, m.Name)
	}
	assert.Equal(t, want, got)
	assert.Len(t, got, 4)
	assert.NotContains(t, out, "name: web", "a mix governs it")
}

// Each workload has a reason that names the list.
func TestSuggestNamesWhatMayNotBeRead(t *testing.T) {
	c := candidates().Cluster(t)
	c.Problems = []overview.Problem{{Resource: "nodes"}, {Resource: "poddisruptionbudgets.policy"}}
	c.Nodes, c.PodDisruptionBudgets = nil, nil
	c.State.ReplaceNodes(nil)
	for _, one := range suggestions(t, c, nil).Suggestions {
		assert.Nil(t, one.Mix, one.Name)
		assert.Nil(t, one.SavingPerMonth)
		var reasons []string
		for _, f := range one.Findings {
			reasons = append(reasons, f.Reason)
		}
		assert.Contains(t, reasons, suggest.ReasonBudgetsUnknown.Name)
		assert.Contains(t, reasons, suggest.ReasonNodesUnknown.Name)
		assert.NotContains(t, reasons, suggest.ReasonNoBudget.Name, "unknown is not none")
		assert.NotContains(t, reasons, suggest.ReasonUnknownType.Name)
	}
}

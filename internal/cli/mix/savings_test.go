// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/internal/mix/savings"
	"berth.dev/berth/test/clitest"
)

// priced is a shop whose nodes have instance types and whose pods have requests.
func priced() *clitest.Shop {
	s := clitest.OneOfEach()
	few := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	all := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("8Gi")}
	for _, n := range s.Nodes() {
		n.Labels[corev1.LabelInstanceTypeStable], n.Labels[corev1.LabelTopologyRegion] = "m5.large", "us-east-1"
		n.Status.Capacity, n.Status.Allocatable = all, all
	}
	for _, p := range s.Pods {
		p.Spec.Containers = []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: few}}}
	}
	return s
}

func TestSavings(t *testing.T) {
	c := priced().Cluster(t)
	book, err := prices.New(prices.Options{})
	require.NoError(t, err)
	shown := func(by savings.By, namespace string) func(o *command.Options) error {
		return func(o *command.Options) error {
			return showSavings(o, c.Overview(nil).Savings(c.Nodes, book, by, clitest.Now), by, namespace)
		}
	}
	clitest.Goldens(t, "", map[string]string{"savings.txt": printers.Text, "savings.yaml": printers.YAML, "savings.csv": savingsCSV}, shown(savings.ByWorkload, "shop"))
	clitest.Goldens(t, "", map[string]string{"savings-namespaces.txt": printers.Text}, shown(savings.ByNamespace, ""))
	clitest.Goldens(t, "", map[string]string{"savings-mixes.txt": printers.Text}, shown(savings.ByMix, ""))
	out, errOut := clitest.Printed(t, printers.Text, func(o *command.Options) error {
		return showSavings(o, &savings.Report{}, savings.ByWorkload, "empty")
	})
	assert.Empty(t, out)
	assert.Equal(t, "No governed workloads found in namespace empty.\n", errOut)
}

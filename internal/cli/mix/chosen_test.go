// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/cli/show"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/test/clitest"
)

// namesOf are the mixes and the workloads of a status.
func namesOf(s *overview.Status) (mixes, workloads []string) {
	for _, m := range s.Mixes {
		mixes = append(mixes, m.Name)
	}
	for _, w := range s.Workloads {
		workloads = append(workloads, w.Kind+"/"+w.Name)
	}
	return mixes, workloads
}

func TestAStatusShowsTheChosenWorkloadsAndTheirMixes(t *testing.T) {
	shop := &clitest.Shop{}
	shop.Node("s1", "spot")
	shop.Node("o1", "on-demand")
	shop.Mix("web", 50, 0)
	shop.Mix("api", 50, 0)
	shop.Deployment("web", nil, "o1", "s1")
	shop.Deployment("api", nil, "o1", "s1")
	c := shop.Cluster(t)
	for name, by := range map[string]*chosen{
		"a name":     {kind: "Deployment", name: "api"},
		"a revision": {kind: "ReplicaSet", name: shop.Pods[2].OwnerReferences[0].Name},
		"a selector": {selector: labels.SelectorFromSet(labels.Set{"app": "api"})},
	} {
		s, slots := by.of(c)
		mixes, workloads := namesOf(s)
		assert.Equal(t, []string{"api"}, mixes, name)
		assert.Equal(t, []string{"Deployment/api"}, workloads, name)
		assert.Equal(t, "os", slots[keyOf(&s.Workloads[0])], name)
	}
	s, _ := (&chosen{}).of(c)
	mixes, workloads := namesOf(s)
	assert.Len(t, mixes, 2)
	assert.Len(t, workloads, 2)
	out, _ := clitest.Printed(t, printers.Name, func(o *command.Options) error { return showStatus(o, s, "shop", nil) })
	assert.Equal(t, "capacitymix.berth.dev/api\ncapacitymix.berth.dev/web\ndeployment/api\ndeployment/web\n", out)
}

func TestANameOfAStatusRequiresANamespace(t *testing.T) {
	_, err := chosenBy(nil, []string{"web"}, "", nil)
	require.ErrorContains(t, err, "a name requires one namespace")
	c, err := chosenBy(nil, []string{"web"}, "shop", labels.Everything())
	require.NoError(t, err)
	assert.Equal(t, &chosen{mix: "web"}, c)
}

func TestNodesAreListedAsKubectlListsThem(t *testing.T) {
	shop := &clitest.Shop{}
	shop.Node("s1", "spot")
	shop.Node("o1", "on-demand")
	c := shop.Cluster(t)
	printed := func(format string, n *overview.Nodes) (string, string) {
		return clitest.Printed(t, format, func(o *command.Options) error { return show.Nodes(o, n) })
	}
	_, errOut := printed(printers.Text, overview.NodesOf(c, true, nil))
	assert.Equal(t, "No node of unknown type found: the type of 2 nodes is known.\n", errOut)
	out, _ := printed(printers.Name, overview.NodesOf(c, false, nil))
	assert.Equal(t, "node/o1\nnode/s1\n", out)
	out, _ = printed(printers.Wide, overview.NodesOf(c, false, nil))
	assert.Regexp(t, `^NAME +TYPE +RULE +DOMAIN +DEPARTING +ACCEPTS +PODS +ZONE +INSTANCE-TYPE +AGE\n`, out)
	chosen, err := labels.Parse("karpenter.sh/capacity-type=spot")
	require.NoError(t, err)
	out, _ = printed(printers.Name, overview.NodesOf(c, false, chosen))
	assert.Equal(t, "node/s1\n", out)
}

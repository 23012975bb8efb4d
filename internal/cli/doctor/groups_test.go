// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/test/clitest"
)

func groupsReport(t *testing.T, s *clitest.Shop, problems ...overview.Problem) *Report {
	t.Helper()
	c := s.Cluster(t)
	c.Problems = problems
	r := &Report{}
	(&patient{cluster: c, now: clitest.Now}).groupsOfOne(r)
	return r
}

// What counts are the groups, not what a controller wrote in a status.
func TestDoctorFailsForGroupsOfOne(t *testing.T) {
	s := clitest.GroupShop()
	s.Mix("probes", 90, 0)
	for _, name := range []string{"a", "b", "c"} {
		s.Owned("probes", name, "o1", "example.com/v1", "Probe", name)
	}
	r := groupsReport(t, s)
	assert.True(t, r.failed())
	clitest.Goldens(t, "", map[string]string{"groups.txt": printers.Text}, func(o *command.Options) error { return showReport(o, r) })

	for i := range s.Mixes {
		s.Mixes[i].Spec.Group = v1alpha1.PodGroupingSelector
	}
	r = groupsReport(t, s)
	require.Len(t, r.Findings, 1)
	assert.Equal(t, OK, r.Findings[0].Level, "the remedy that it prints is one")

	assert.Empty(t, groupsReport(t, clitest.GroupShop(), overview.Problem{Resource: "pods"}).Findings, "unknown is not false")
}

func TestDoctorPrintsTenMixesWithGroupsOfOne(t *testing.T) {
	s := &clitest.Shop{}
	s.Node("o1", "on-demand")
	for i := range 12 {
		mix := fmt.Sprintf("mix-%02d", i)
		s.Mix(mix, 50, 0, func(m *v1alpha1.CapacityMix) { m.Spec.Selector.MatchLabels = map[string]string{"mix": mix} })
		for j := range 2 {
			s.Deployment(fmt.Sprintf("%s-%d", mix, j), nil, "o1")[0].Labels["mix"] = mix
		}
	}
	r := groupsReport(t, s)
	require.Len(t, r.Findings, 11)
	assert.Equal(t, "and 2 more", r.Findings[10].Message)
}

// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/test/clitest"
)

func TestDomainsHaveTheirShareAndTheirInterruptions(t *testing.T) {
	c := clitest.OneOfEach().Cluster(t)
	d := overview.DomainsOf(c)
	require.Len(t, d.Domains, 1)
	one := &d.Domains[0]
	assert.Equal(t, 2, one.Nodes, "on-demand nodes do not count")
	assert.Equal(t, 1, one.Departing)
	assert.Equal(t, overview.Known(3), one.Replicas)
	assert.Equal(t, overview.Known(100), one.SharePercent)
	assert.True(t, one.Interruptions.Unknown(), "unknown is not 0")
	assert.Equal(t, "?", one.Quarantine())

	now := time.Unix(1_800_000_000, 0)
	table := interruptions.Table{Keys: c.Profile.Args.SpreadSpotOver}
	settings := interruptions.Settings{SharePercent: 20, Quarantine: 10 * time.Minute, Longest: time.Hour}
	table, _ = table.Observe(interruptions.Interruption{Node: "a", Domain: one.Domain}, now.Add(-time.Hour), settings)
	table, _ = table.Observe(interruptions.Interruption{Node: "b", Domain: "z/gone"}, now, settings)
	d.Add(&table, now)
	require.Len(t, d.Domains, 2, "also one whose last node is gone")
	assert.Equal(t, "0.5", d.Domains[0].Interruptions.String(), "half after an hour")
	assert.Nil(t, d.Domains[0].QuarantinedUntil, "it is over")
	assert.Empty(t, d.Domains[0].Quarantine())
	assert.Equal(t, "1.0", d.Domains[1].Interruptions.String())
	assert.Equal(t, "2027-01-15T08:10:00Z", d.Domains[1].Quarantine())
}

func TestSharesAreUnknownWithoutThePods(t *testing.T) {
	c := clitest.OneOfEach().Cluster(t)
	c.Problems = []overview.Problem{{Resource: "pods"}}
	d := overview.DomainsOf(c)
	require.NotEmpty(t, d.Domains)
	assert.True(t, d.Domains[0].Replicas.Unknown())
	assert.True(t, d.Domains[0].SharePercent.Unknown())
}

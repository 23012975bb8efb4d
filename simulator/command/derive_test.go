// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/internal/sim/scenario"
	"berth.dev/berth/simulator"
)

const snapshotOfTests = "../../internal/sim/derive/testdata/cluster.yaml"

// The nodes of the snapshot have capacity for all of its replicas, so each is Ready.
func TestAScenarioThatIsDerivedRuns(t *testing.T) {
	out, _, err := run(t, "derive", snapshotOfTests, "--duration", "1h")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "scenario.yaml")
	require.NoError(t, os.WriteFile(path, []byte(out), 0o600))
	s, err := scenario.Load(path)
	require.NoError(t, err)
	assert.Equal(t, time.Hour, s.Duration.Duration)
	r, err := simulator.Run(t.Context(), s, simulator.Policies[0], func(time.Duration) {})
	require.NoError(t, err)
	assert.Greater(t, r.ReadyReplicaMinutes, 0.95*16*60, "of 16 replicas")
}

func TestASnapshotThatGivesNoScenarioIsRefused(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.yaml")
	header := "apiVersion: sim.berth.dev/v1alpha1\nkind: Snapshot\ntime: \"2026-07-01T12:00:00Z\"\n"
	require.NoError(t, os.WriteFile(empty, []byte(header), 0o600))
	for want, args := range map[string][]string{
		"empty.yaml: the snapshot has no nodes": {"derive", empty},
		"nowhere.json":                          {"derive", "nowhere.json"},
		"accepts 1 arg":                         {"derive"},
		`--duration: Invalid value: "-1h0m0s": must be more than 0 and at most 8784h0m0s`: {"derive", snapshotOfTests, "--duration", "-1h"},
	} {
		_, _, err := run(t, args...)
		assert.ErrorContains(t, err, want)
	}
	out, _, err := run(t, "derive", "--help")
	require.NoError(t, err)
	assert.Contains(t, out, "berth-sim derive cluster.json.gz > scenario.yaml")
	assert.True(t, strings.HasPrefix(out, "Print a scenario for the cluster of a snapshot"))
}

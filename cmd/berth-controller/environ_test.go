// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A flag wins over the environment, and that over the file.
func TestTheEnvironmentWinsOverTheFile(t *testing.T) {
	t.Setenv("BERTH_CONTROLLER_RESYNC_INTERVAL", "45s")
	t.Setenv("BERTH_CONTROLLER_DRY_RUN", "true")
	t.Setenv("BERTH_CONTROLLER_NAMESPACES", "a,b")
	t.Setenv("BERTH_CONTROLLER_METRICS_BIND_ADDRESS", "")
	t.Setenv("BERTH_CONTROLLER_PORT", "tcp://10.0.0.1:8443") // of a Service
	c, err := configured(t, "resyncSeconds: 60\nmetrics: {bindAddress: ':9999'}\n", "--dry-run=false")
	require.NoError(t, err)
	assert.EqualValues(t, 45, c.ResyncSeconds)
	assert.Equal(t, []string{"a", "b"}, c.Namespaces)
	assert.Equal(t, ":9999", c.Metrics.BindAddress, "what is empty says nothing")
	assert.False(t, c.DryRun)
}

func TestAVariableThatIsWrongIsNamed(t *testing.T) {
	t.Setenv("BERTH_CONTROLLER_RESYNC_INTERVAL", "soon")
	t.Setenv("BERTH_CONTROLLER_DRY_RUN", "maybe")
	_, err := configured(t, "")
	require.ErrorContains(t, err, `BERTH_CONTROLLER_RESYNC_INTERVAL is "soon"`)
	require.ErrorContains(t, err, `BERTH_CONTROLLER_DRY_RUN is "maybe"`)
}

// Clients of other schedulers start theirs with `run`.
func TestRunIsWhatItDoesAnyway(t *testing.T) {
	c, err := configured(t, "resyncSeconds: 60\n", "run")
	require.NoError(t, err)
	assert.EqualValues(t, 60, c.ResyncSeconds)
	_, err = configured(t, "", "walk")
	require.ErrorContains(t, err, `"walk"`)
	_, err = configured(t, "", "run", "run")
	require.Error(t, err)
}

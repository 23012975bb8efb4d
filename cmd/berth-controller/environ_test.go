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
	assert.Equal(t, ":9999", c.Metrics.BindAddress, "an empty variable sets nothing")
	assert.False(t, c.DryRun)
}

func TestAVariableThatIsWrongIsNamed(t *testing.T) {
	t.Setenv("BERTH_CONTROLLER_RESYNC_INTERVAL", "soon")
	t.Setenv("BERTH_CONTROLLER_DRY_RUN", "maybe")
	_, err := configured(t, "")
	require.ErrorContains(t, err, `BERTH_CONTROLLER_RESYNC_INTERVAL is "soon"`)
	require.ErrorContains(t, err, `BERTH_CONTROLLER_DRY_RUN is "maybe"`)
}

func TestTheVariablesOfOaaSAreRead(t *testing.T) {
	t.Setenv("OPRC_CRM_PROFILE", "edge")
	t.Setenv("OPRC_CRM_FEATURES_LEADER_ELECTION", "false")
	c, err := configured(t, "controllers: ['*', records]\nrecords: {profile: dev}\n", "--leader-elect=true")
	require.NoError(t, err)
	assert.Equal(t, "edge", c.Records.Profile, "they override the file")
	assert.True(t, c.LeaderElection.Enabled, "and a flag overrides them")
	t.Setenv("OPRC_CRM_PROM_SCRAPE_KIND", "pod")
	_, err = configured(t, "controllers: ['*', records]\n")
	require.NoError(t, err, "the published chart sets it")
	t.Setenv("OPRC_CRM_PROFILE", "fulll")
	_, err = configured(t, "controllers: ['*', records]\n")
	require.ErrorContains(t, err, `OPRC_CRM_PROFILE is "fulll"`)
	t.Setenv("OPRC_CRM_PROFILE", "edge")
	t.Setenv("OPRC_CRM_LIMITS_MAX_REPLICAS", "0")
	_, err = configured(t, "controllers: ['*', records]\n")
	require.ErrorContains(t, err, "records.nfr.maxReplicas", "the bounds are those of the field")
}

// Clients of other schedulers start theirs with `run`.
func TestTheArgumentRunIsOptional(t *testing.T) {
	c, err := configured(t, "resyncSeconds: 60\n", "run")
	require.NoError(t, err)
	assert.EqualValues(t, 60, c.ResyncSeconds)
	_, err = configured(t, "", "walk")
	require.ErrorContains(t, err, `"walk"`)
	_, err = configured(t, "", "run", "run")
	require.Error(t, err)
}

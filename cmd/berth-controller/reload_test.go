// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/internal/config/program"
)

// rereading is a reloader of a file, and what it did.
type rereading struct {
	*program.Reloader
	t       *testing.T
	applied []*controller.Configuration
	log     bytes.Buffer
}

// reread starts the command with a file and flags, up to where the file is watched.
func reread(t *testing.T, file string, flags ...string) *rereading {
	t.Helper()
	r := &rereading{t: t}
	path := filepath.Join(t.TempDir(), "config.yaml")
	logger, err := (&program.Logging{}).Logger(&r.log)
	require.NoError(t, err)
	cmd := newCommand(func(_ context.Context, c *controller.Configuration, src program.Source) error {
		r.Reloader = &program.Reloader{Source: src, Running: c, Apply: func(c *controller.Configuration) { r.applied = append(r.applied, c) }, Log: logger}
		return nil
	})
	cmd.SetArgs(append(flags, "--config="+path))
	require.NoError(t, os.WriteFile(path, []byte(header+file), 0o600))
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	r.Look()
	require.Empty(t, r.applied, "nothing was changed")
	require.Empty(t, r.logged())
	return r
}

// have writes the file again and has it looked at.
func (r *rereading) have(file string) {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(r.File, []byte(header+file), 0o600))
	r.Look()
}

// logged returns what was logged since its last call.
func (r *rereading) logged() string {
	defer r.log.Reset()
	return r.log.String()
}

// Gauges of the reloader.
const (
	lastReloadSuccessful = "berth_config_last_reload_successful"
	fieldsNeedRestart    = "berth_config_fields_need_restart"
)

func gauge(t *testing.T, name string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	require.Fail(t, "there is no metric "+name)
	return 0
}

func TestAChangeOfTheFileTakesEffect(t *testing.T) {
	r := reread(t, "resyncSeconds: 45\n")
	r.have("resyncSeconds: 45\ndryRun: true\nmix: {rebalance: {mode: Report}}\n")
	require.Len(t, r.applied, 1)
	assert.True(t, r.applied[0].DryRun)
	assert.EqualValues(t, "Report", r.applied[0].Mix.Rebalance.Mode)
	assert.EqualValues(t, 45, r.applied[0].ResyncSeconds)
	said := r.logged()
	assert.Contains(t, said, `"The configuration was changed" field="dryRun" from=false to=true`)
	assert.Contains(t, said, `"The configuration was changed" field="mix.rebalance.mode" from="Evict" to="Report"`)

	r.Look()
	r.have("dryRun: true\nresyncSeconds: 45\nmix: {rebalance: {mode: Report}} # as before\n")
	assert.Len(t, r.applied, 1, "nothing was changed")
	assert.Empty(t, r.logged())

	r.have("resyncSeconds: 45\n")
	require.Len(t, r.applied, 2, "and back")
	assert.False(t, r.applied[1].DryRun)
}

func TestAChangeThatNeedsARestartIsLoggedAndCounted(t *testing.T) {
	r := reread(t, "")
	r.have("resyncSeconds: 45\nnamespaces: [shop]\n")
	assert.Empty(t, r.applied)
	said := r.logged()
	assert.Contains(t, said, `after a restart only" field="resyncSeconds" from=30 to=45`)
	assert.Contains(t, said, `after a restart only" field="namespaces"`)
	assert.InDelta(t, 2, gauge(t, fieldsNeedRestart), 0)
	r.Look()
	assert.Empty(t, r.logged(), "it is logged once")

	r.have("resyncSeconds: 45\nnamespaces: [shop]\ndryRun: true\n")
	require.Len(t, r.applied, 1)
	assert.EqualValues(t, 30, r.applied[0].ResyncSeconds, "as it runs")
	assert.InDelta(t, 2, gauge(t, fieldsNeedRestart), 0)

	r.have("dryRun: true\n")
	assert.Zero(t, gauge(t, fieldsNeedRestart), "it was taken back")
}

func TestAFileThatCannotBeUsedChangesNothing(t *testing.T) {
	for name, tc := range map[string]struct{ file, want string }{
		"an unknown field":    {"dryrun: true\n", `unknown field \"dryrun\"`},
		"not valid":           {"dryRun: true\nmix: {rebalance: {maxConcurrent: 0}}\n", "mix.rebalance.maxConcurrent"},
		"not YAML":            {"{", "config.yaml"},
		"two documents":       {"dryRun: true\n---\ndryRun: false\n", "config.yaml"},
		"of another kind too": {"kind: Other\n", "config.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			r := reread(t, "")
			r.have(tc.file)
			assert.Empty(t, r.applied)
			assert.Contains(t, r.logged(), tc.want)
			assert.Zero(t, gauge(t, lastReloadSuccessful))
			r.Look()
			assert.Empty(t, r.logged(), "it is logged once")

			r.have("dryRun: true\n")
			assert.Len(t, r.applied, 1)
			assert.InDelta(t, 1, gauge(t, lastReloadSuccessful), 0)
		})
	}
}

func TestAFileThatIsGoneForAWhile(t *testing.T) {
	r := reread(t, "")
	require.NoError(t, os.Rename(r.File, r.File+".away"))
	r.Look()
	r.Look()
	assert.Equal(t, 1, bytes.Count([]byte(r.logged()), []byte("cannot be used")))
	assert.Zero(t, gauge(t, lastReloadSuccessful))
	require.NoError(t, os.Rename(r.File+".away", r.File))
	r.Look()
	assert.InDelta(t, 1, gauge(t, lastReloadSuccessful), 0)
	assert.Empty(t, r.applied)
}

func TestFlagsOverrideAFileThatIsReadAgain(t *testing.T) {
	t.Setenv("BERTH_CONTROLLER_RESYNC_INTERVAL", "90s")
	r := reread(t, "", "--dry-run=false")
	r.have("dryRun: true\nresyncSeconds: 45\n")
	assert.Empty(t, r.applied)
	assert.Zero(t, gauge(t, fieldsNeedRestart))
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/hack/cluster"
)

// The tests in this file start a control plane each.

func TestMain(m *testing.M) {
	silence()
	os.Exit(m.Run())
}

const (
	maxColumns = 100
	maxLines   = 30 // an act is one screen
)

func TestTheDemoShowsEveryActOnOneScreenAndLeavesNothing(t *testing.T) {
	var out bytes.Buffer
	d := newDemo(&screen{out: &out})
	require.NoError(t, d.run(t.Context()), out.String())

	screens := strings.Split(out.String(), "\n\n== ")
	assert.Len(t, screens, 12, "the start, the nodes, six acts about the mix, three about other features, the end")
	for _, s := range screens {
		assert.LessOrEqual(t, strings.Count(s, "\n")+2, maxLines, "lines of: %s", s)
	}
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "    ") { // the tables of kubectl berth may be wider
			assert.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), maxColumns, line)
		}
		assert.Equal(t, strings.TrimRight(line, " \n")+"\n", line, "no spaces at the end")
	}
	assert.Empty(t, d.results.differs)
	assert.NotContains(t, out.String(), "DIFFERS")
	assert.NotContains(t, out.String(), "\x1b")
	requireGone(t, d.cluster)
}

// Proves that the demo can fail: the same scheduler without Berth's plugin.
func TestTheDemoFailsWhenPodsAreNotPlacedByTheirMix(t *testing.T) {
	var out bytes.Buffer
	d := newDemo(&screen{out: &out})
	d.acts = []string{mixActs}
	d.profile = filepath.Join(t.TempDir(), "no-plugin.yaml")
	require.NoError(t, os.WriteFile(d.profile, []byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: berth-scheduler
`), 0o600))
	built, err := d.build(t.Context())
	require.NoError(t, err)
	stop, err := d.launch(t.Context(), built)
	defer stop()
	require.NoError(t, err)
	require.NoError(t, d.cluster.AddNodes(t.Context(), append(nodeSpecs("spot", 6), nodeSpecs("on-demand", 4)...)...))
	require.NoError(t, d.place(t.Context()))
	require.ErrorIs(t, d.end(0), errDiffers)
	require.Contains(t, out.String(), "DIFFERS")
	require.Contains(t, out.String(), "These failed:\n    web: ")
	require.Contains(t, out.String(), "runs without a slot")
}

func TestAnInterruptedDemoLeavesNothing(t *testing.T) {
	var out bytes.Buffer
	d := newDemo(&screen{out: &out})
	ctx, cancel := context.WithCancel(t.Context())
	acts := 0
	d.pause = func(context.Context) error {
		if acts++; acts == 2 {
			cancel()
		}
		return nil
	}
	require.ErrorIs(t, d.run(ctx), context.Canceled)
	require.NotContains(t, out.String(), "The end")
	requireGone(t, d.cluster)
}

func requireGone(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	require.NoDirExists(t, c.Dir())
	for _, name := range cluster.ControlPlane() {
		select {
		case <-c.Component(name).Done():
		default:
			t.Errorf("%s still runs", name)
		}
	}
}

// The tables count capacity in pods of this size.
func TestTheSamplesOfTheDemoRequestThePodSizeOfItsTables(t *testing.T) {
	root, err := cluster.RepoRoot()
	require.NoError(t, err)
	for _, file := range []string{"web.yaml", "db.yaml"} {
		b, err := os.ReadFile(filepath.Join(root, "manifests/samples", file))
		require.NoError(t, err)
		documents := strings.Split(string(b), "\n---\n")
		var workload appsv1.Deployment // a StatefulSet has its pod template at the same path
		require.NoError(t, yaml.Unmarshal([]byte(documents[len(documents)-1]), &workload))
		require.EqualValues(t, podCPU, workload.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().MilliValue(), file)
	}
}

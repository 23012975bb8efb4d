// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/internal/mix/capacity"
)

// laidOut is the configuration as a peer gets it, read.
func laidOut(t *testing.T, p peer) (dir string, tests []map[string]any) {
	t.Helper()
	module, err := os.Getwd()
	require.NoError(t, err)
	dir = t.TempDir()
	require.NoError(t, layOut(module, dir, p))
	text, err := os.ReadFile(filepath.Join(dir, "performance-config.yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(text, &tests))
	return dir, tests
}

// TestSchedulerPerfTakesTheConfiguration has scheduler_perf read it, strictly, and run nothing of it.
func TestSchedulerPerfTakesTheConfiguration(t *testing.T) {
	filter := perf.PerfSchedulingLabelFilter
	perf.PerfSchedulingLabelFilter = "nothing-has-this-label"
	t.Cleanup(func() { perf.PerfSchedulingLabelFilter = filter })
	dir, _ := laidOut(t, peers["P0"])
	t.Chdir(dir) // the results, of nothing, are written there
	read := false
	testing.Benchmark(func(b *testing.B) {
		perf.RunBenchmarkPerfScheduling(b, "performance-config.yaml", "none", nil)
		read = true // not after a b.Fatal
	})
	assert.True(t, read)
}

func TestEveryFileThatIsNamedIsThere(t *testing.T) {
	for name, p := range peers {
		t.Run(name, func(t *testing.T) {
			dir, tests := laidOut(t, p)
			named := 0
			for _, test := range tests {
				named += exist(t, dir, test)
			}
			assert.Greater(t, named, 3*len(tests), "a profile, pods and nodes each")
		})
	}
}

// exist requires every file below that a field names, and counts them.
func exist(t *testing.T, dir string, value any) (n int) {
	t.Helper()
	switch v := value.(type) {
	case map[string]any:
		for _, inner := range v {
			n += exist(t, dir, inner)
		}
	case []any:
		for _, inner := range v {
			n += exist(t, dir, inner)
		}
	case string:
		if filepath.Ext(v) == ".yaml" {
			assert.FileExists(t, filepath.Join(dir, v))
			n++
		}
	}
	return n
}

func TestEveryCaseNamesAWorkloadAndItsPeers(t *testing.T) {
	_, tests := laidOut(t, peers["P0"])
	sizes := map[string]bool{}
	for _, test := range tests {
		for _, w := range test["workloads"].([]any) {
			sizes[test["name"].(string)+"/"+w.(map[string]any)["name"].(string)] = true
		}
	}
	names := map[string]bool{}
	for _, w := range workloads {
		assert.True(t, sizes[w.test+"/"+w.size], "%s: %s/%s", w.name, w.test, w.size)
		assert.False(t, names[w.name], "%s is there twice", w.name)
		names[w.name] = true
		for _, p := range w.peers {
			assert.Contains(t, peers, p, w.name)
		}
	}
}

func TestProfilesAreValidAndDifferInTheirPluginsOnly(t *testing.T) {
	samples := map[string]int32{"berth-16": 16, "berth-100": 100}
	for name, p := range peers {
		dir, _ := laidOut(t, p)
		text, err := os.ReadFile(filepath.Join(dir, "scheduler.yaml"))
		require.NoError(t, err)
		obj, _, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
		require.NoError(t, err, name)
		c := obj.(*schedulerconfig.KubeSchedulerConfiguration)
		require.NoError(t, validation.ValidateKubeSchedulerConfiguration(c), name)
		assert.EqualValues(t, 16, c.Parallelism, name)
		assert.Zero(t, *c.PercentageOfNodesToScore, "%s: the default", name)
		require.Len(t, c.Profiles, 1)
		assert.Equal(t, corev1.DefaultSchedulerName, c.Profiles[0].SchedulerName, "scheduler_perf counts its attempts")
		for _, plugin := range c.Profiles[0].PluginConfig {
			if args, ok := plugin.Args.(*config.CapacityMixArgs); ok {
				assert.Equal(t, samples[name], args.NodeSampleSize, name)
				delete(samples, name)
			}
		}
	}
	assert.Empty(t, samples, "Berth's peers have their sample")
}

func TestRecorderReadsTheTypesOfTheNodes(t *testing.T) {
	assert.Equal(t, capacity.Spot, typeOf(map[string]string{"karpenter.sh/capacity-type": "spot"}))
	assert.Equal(t, capacity.OnDemand, typeOf(map[string]string{"karpenter.sh/capacity-type": "on-demand"}))
	assert.Equal(t, capacity.Unknown, typeOf(nil))
}

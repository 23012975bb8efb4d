// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
)

const (
	header = "apiVersion: config.berth.dev/v1alpha1\nkind: ControllerConfiguration\n"
	sample = "../../../manifests/controller/config.yaml"
)

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		text    string
		want    func(*controller.Configuration)
		wantErr string
	}{
		"a file without fields is the defaults": {text: header},
		"an unset field keeps its default": {
			text: header + "dryRun: true\nnamespaces: [shop]\n" +
				"mix: {rebalance: {mode: Report, storm: {minNodes: 5}}}\nmetrics: {secure: false}\n",
			want: func(c *controller.Configuration) {
				c.DryRun, c.Namespaces, c.Metrics.Secure = true, []string{"shop"}, false
				c.Mix.Rebalance.Mode, c.Mix.Rebalance.Storm.MinNodes = v1alpha1.RebalanceModeReport, 5
			},
		},
		"null is unset": {text: header + "resyncSeconds: null\nmix:\n"},
		"a document marker and comments go first": {text: "# a comment\n---\n" + header},
		"an unknown field":                        {text: header + "resync: 5\n", wantErr: `unknown field "resync"`},
		"an unknown field within another": {
			text:    header + "mix: {rebalance: {storm: {nodes: 1}}}\n",
			wantErr: `unknown field "mix.rebalance.storm.nodes"`,
		},
		"a field in the wrong case":  {text: header + "dryrun: true\n", wantErr: `unknown field "dryrun"`},
		"a field given twice":        {text: header + "dryRun: true\ndryRun: false\n", wantErr: `"dryRun" already set`},
		"a value of the wrong type":  {text: header + "resyncSeconds: 30s\n", wantErr: "resyncSeconds of type int32"},
		"a number that is too large": {text: header + "resyncSeconds: 3000000000\n", wantErr: "number 3000000000"},
		"another kind": {
			text:    "apiVersion: config.berth.dev/v1alpha1\nkind: KubeSchedulerConfiguration\nprofiles: []\n",
			wantErr: `kind is "KubeSchedulerConfiguration", not "ControllerConfiguration"`,
		},
		"another version": {
			text:    "apiVersion: config.berth.dev/v1\nkind: ControllerConfiguration\n",
			wantErr: `apiVersion is "config.berth.dev/v1", not "config.berth.dev/v1alpha1"`,
		},
		"no version":     {text: "kind: ControllerConfiguration\n", wantErr: `apiVersion is "", not`},
		"two documents":  {text: header + "---\n" + header, wantErr: "more than one document"},
		"an empty file":  {text: "", wantErr: "the file has no document"},
		"only a comment": {text: "# nothing\n", wantErr: "the file has no document"},
		"no mapping":     {text: "[1, 2]\n", wantErr: "cannot unmarshal array"},
		"no YAML":        {text: "a: [\n", wantErr: "yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := controller.Parse([]byte(tc.text))
			if tc.wantErr != "" {
				require.ErrorContains(t, err, tc.wantErr)
				return
			}
			require.NoError(t, err)
			want := controller.Default()
			if tc.want != nil {
				tc.want(want)
			}
			require.Equal(t, want, got)
		})
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	_, err := controller.Load(path)
	require.ErrorIs(t, err, fs.ErrNotExist)

	require.NoError(t, os.WriteFile(path, []byte(header+"colour: red\n"), 0o600))
	_, err = controller.Load(path)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, `unknown field "colour"`)
}

func TestSampleIsTheDefaultsAndLeavesNoFieldOut(t *testing.T) {
	got, err := controller.Load(sample)
	require.NoError(t, err)
	require.Equal(t, controller.Default(), got)

	text, err := os.ReadFile(sample)
	require.NoError(t, err)
	all, err := yaml.Marshal(controller.Default())
	require.NoError(t, err)
	require.Equal(t, fields(t, all), fields(t, text))
}

// fields returns the paths of all fields of a YAML text.
func fields(t *testing.T, text []byte) []string {
	t.Helper()
	var document map[string]any
	require.NoError(t, yaml.Unmarshal(text, &document))
	var list func(prefix string, m map[string]any) []string
	list = func(prefix string, m map[string]any) []string {
		var out []string
		for _, key := range slices.Sorted(maps.Keys(m)) {
			out = append(out, prefix+key)
			if inner, ok := m[key].(map[string]any); ok {
				out = append(out, list(prefix+key+".", inner)...)
			}
		}
		return out
	}
	return list("", document)
}

func FuzzParse(f *testing.F) {
	// No long seeds: the fuzzer would spend its time on minimizing them.
	f.Add([]byte(header))
	f.Add([]byte(header + "dryRun: true\nmetrics: {bindAddress: ':1', secure: false}\n"))
	f.Add([]byte(header + "---\n" + header))
	f.Add([]byte(header + "namespaces: [a, a]\nrebalance: {mode: Never, maxBackoffSeconds: -1}\n"))
	f.Add([]byte(header + "leaderElection: {retryPeriodSeconds: 2147483647, renewDeadlineSeconds: 2147483647}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := controller.Parse(text)
		if err != nil {
			require.Nil(t, c)
			return
		}
		_ = c.Validate() // must not panic on any value
		written, err := yaml.Marshal(c)
		require.NoError(t, err)
		again, err := controller.Parse(written)
		require.NoError(t, err)
		require.Equal(t, c, again)
	})
}

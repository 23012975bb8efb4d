// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func TestTheProcessesOfFeatures(t *testing.T) {
	serve := ServiceAddresses{Berth: "127.0.0.1:1", Environments: "127.0.0.1:2"}
	for _, c := range []struct {
		features Features
		single   bool
		want     []string
	}{
		{nil, false, []string{"berth-controller [*] []"}},
		{Features{Limits}, false, []string{"berth-controller [*] []", "berth-records [] [127.0.0.1:1]"}},
		{AllFeatures(), false, []string{
			"berth-controller [*] []", "berth-records [records] [127.0.0.1:1]", "berth-environments [environments] [127.0.0.1:2]",
		}},
		{Features{Limits}, true, []string{"berth-controller [*] [127.0.0.1:1]"}},
		{AllFeatures(), true, []string{"berth-controller [* records environments] [127.0.0.1:1 127.0.0.1:2]"}},
	} {
		var got []string
		for _, p := range (&ControllersOptions{Features: c.features, Serve: serve, SingleProcess: c.single}).processes() {
			got = append(got, fmt.Sprint(p.name, " ", p.controllers, " ", p.serve))
		}
		assert.Equal(t, c.want, got)
	}
}

// W9: the default configuration names no image, and a record with an object data grid would not be rendered.
func TestTheLocalClusterHasAnImageOfTheODGM(t *testing.T) {
	for file, want := range map[string]string{
		"../../manifests/records/config.yaml": odgmStandIn, // it is not configured there
		"own.yaml":                            "registry.example/odgm:1",
	} {
		c := &Cluster{dir: t.TempDir()}
		if file == "own.yaml" {
			file = filepath.Join(c.dir, file)
			require.NoError(t, os.WriteFile(file, []byte("records: {odgmImage: "+want+"}"), 0o600))
		}
		written, err := c.controllerConfig(&process{name: "berth-records", config: file, controllers: []any{Records}})
		require.NoError(t, err)
		text, err := os.ReadFile(filepath.Clean(written))
		require.NoError(t, err)
		var config struct {
			Records struct{ ODGMImage string }
		}
		require.NoError(t, yaml.Unmarshal(text, &config))
		assert.Equal(t, want, config.Records.ODGMImage)
	}
}

// SPDX-License-Identifier: Apache-2.0

package profiles_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/test/testenv"
)

// rule is a node rule as it is in a configuration file.
func rule(changes map[string]any) []any {
	r := map[string]any{"name": "ours", "key": "example.com/spot", "operator": "Exists", "capacityType": "spot"}
	maps.Copy(r, changes)
	return []any{r}
}

func TestAnInvalidArgumentStopsTheSchedulerAndNamesTheField(t *testing.T) {
	w := testenv.New(t)
	inSecondProfile := func(args map[string]any) func(testenv.Config) {
		return func(c testenv.Config) { testenv.SetPluginArgs(c.Profiles()[1], "CapacityMix", args) }
	}
	const args = "pluginConfig.CapacityMix.args."
	for name, c := range map[string]struct {
		profile string
		change  func(testenv.Config)
		want    []string
	}{
		"a value out of range": {
			change: testenv.PluginArgs("CapacityMix", map[string]any{"nodeSampleSize": 5}),
			want:   []string{args + "nodeSampleSize", "5"},
		},
		"a mix that is no mix": {
			change: testenv.PluginArgs("CapacityMix", map[string]any{"defaultMix": map[string]any{"spotPercent": 101}}),
			want:   []string{args + "defaultMix.spotPercent", "101", "between 0 and 100"},
		},
		"a value of the wrong kind": {
			change: testenv.PluginArgs("CapacityMix", map[string]any{"syncTimeoutSeconds": "long"}),
			want:   []string{"syncTimeoutSeconds"},
		},
		"an unknown field": {
			change: testenv.PluginArgs("CapacityMix", map[string]any{"nodeSamplesize": 50}),
			want:   []string{"unknown field", `nodeSamplesize\"`},
		},
		"an unknown field inside": {
			change: testenv.PluginArgs("CapacityMix", map[string]any{"defaultMix": map[string]any{"spotPercent": 50, "minOnDemnd": 1}}),
			want:   []string{"unknown field", `defaultMix.minOnDemnd\"`},
		},
		"an annotation prefix that cannot be read": {
			change: testenv.PluginArgs("CapacityMix", map[string]any{"annotationPrefixes": []any{"example.com"}}),
			want:   []string{args + "annotationPrefixes[0]", "example.com"},
		},
		"a node rule with an unknown operator": {
			change: testenv.PluginArgs("CapacityMix", map[string]any{"nodeRules": rule(map[string]any{"operator": "Like"})}),
			want:   []string{args + "nodeRules[0].operator", "Like"},
		},
		"a node rule with an unknown type": {
			change: testenv.PluginArgs("CapacityMix", map[string]any{"nodeRules": rule(map[string]any{"capacityType": "cheap"})}),
			want:   []string{args + "nodeRules[0].capacityType", "cheap"},
		},
		"two profiles with different node rules": {
			profile: testenv.ReplaceDefault,
			change:  inSecondProfile(map[string]any{"nodeRules": rule(nil)}),
			want:    []string{args + "nodeRules", "must be the same in all profiles"},
		},
		"two profiles with different annotation prefixes": {
			profile: testenv.ReplaceDefault,
			change:  inSecondProfile(map[string]any{"annotationPrefixes": []any{"spotalis.io"}}),
			want:    []string{args + "annotationPrefixes", "must be the same in all profiles"},
		},
	} {
		w.Run(name, func(t *testing.T, w *testenv.World) {
			if c.profile == "" {
				c.profile = testenv.SecondScheduler
			}
			o := w.Variant(c.profile, c.change)
			o.Name = fmt.Sprintf("wrong-%d", rand.Uint64()) // a log of its own
			said := w.RequireStartFails(o)
			for _, want := range c.want {
				assert.Contains(t, said, want)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package extremes

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func TestWhatAnAPIServerNamesIsRemoved(t *testing.T) {
	const object = `{spec: {a: 1, list: [{k: 0}, {k: 1}, {k: 2}], labels: {x.example/y: v, z: v}}}`
	for name, tc := range map[string]struct {
		paths []string
		want  string // "" if nothing can be removed
	}{
		"a field":                         {[]string{"spec.a"}, `{spec: {list: [{k: 0}, {k: 1}, {k: 2}], labels: {x.example/y: v, z: v}}}`},
		"entries of a list":               {[]string{"spec.list[0]", "spec.list[2].k"}, `{spec: {a: 1, list: [{k: 1}, {}], labels: {x.example/y: v, z: v}}}`},
		"a key":                           {[]string{"spec.labels[x.example/y]"}, `{spec: {a: 1, list: [{k: 0}, {k: 1}, {k: 2}], labels: {z: v}}}`},
		"what a field that misses is in":  {[]string{"spec.list[1].name"}, `{spec: {a: 1, list: [{k: 0}, {k: 2}], labels: {x.example/y: v, z: v}}}`},
		"a field and one below it":        {[]string{"spec.list", "spec.list[1].k"}, `{spec: {a: 1, labels: {x.example/y: v, z: v}}}`},
		"one below a field and the field": {[]string{"spec.list[1].k", "spec.list"}, `{spec: {a: 1, labels: {x.example/y: v, z: v}}}`},
		"not the content":                 {[]string{"spec", "spec.missing", "metadata.name", ""}, ""},
		"a list without the entry":        {[]string{"spec.list[7]"}, `{spec: {a: 1, labels: {x.example/y: v, z: v}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := map[string]any{}, map[string]any{}
			require.NoError(t, yaml.Unmarshal([]byte(object), &got))
			text := tc.want
			if text == "" {
				text = object
			}
			require.NoError(t, yaml.Unmarshal([]byte(text), &want))
			assert.Equal(t, tc.want != "", Without(got, tc.paths))
			assert.Equal(t, want, got)
		})
	}
}

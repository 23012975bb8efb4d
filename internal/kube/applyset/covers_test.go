// SPDX-License-Identifier: Apache-2.0

package applyset

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		have, want string
		is         bool
	}{
		{"{a: 1, b: 2}", "{a: 1}", true},
		{"{a: 1}", "{a: 1, b: 2}", false},
		{"{a: 1}", "{a: 2}", false},
		{"{}", "{replicas: 0, paused: false, note: '', env: [], meta: {}}", true},
		{"{}", "{replicas: 1}", false},
		{"{cpu: 500m}", "{cpu: '0.5'}", true},
		{"{cpu: 500m}", "{cpu: '0.6'}", false},
		{"{image: 'a:1'}", "{image: 'a:2'}", false},
		{"{c: [{name: x, image: a, pull: Always}, {name: sidecar}]}", "{c: [{name: x, image: a}]}", true},
		{"{c: [{name: sidecar}, {name: x, image: b}]}", "{c: [{name: x, image: a}]}", false},
		{"{c: [{name: y}]}", "{c: [{name: x}]}", false},
		{"{p: [{port: 53, protocol: TCP}, {port: 53, protocol: UDP}]}", "{p: [{port: 53, protocol: UDP}]}", true},
		{"{p: [{port: 53, protocol: TCP}]}", "{p: [{port: 53, protocol: UDP}]}", false},
		{"{args: [a, b]}", "{args: [a]}", false},
		{"{args: [b, a]}", "{args: [a, b]}", false},
		{"{args: [a, b]}", "{args: [a, b]}", true},
		{"{a: text}", "{a: {b: 1}}", false},
	} {
		assert.Equal(t, c.is, covers(parsed(t, c.have), parsed(t, c.want)), "%s has %s", c.have, c.want)
	}
}

func TestEverythingCoversItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := value(t, 3)
		require.True(t, covers(v, v))
		if m, ok := v.(map[string]any); ok {
			require.True(t, covers(m, map[string]any{}))
		}
	})
}

func value(t *rapid.T, depth int) any {
	switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
	case kind == 0 && depth > 0:
		m := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, "fields") {
			m[rapid.SampledFrom([]string{"name", "a", "b", "port"}).Draw(t, "key")] = value(t, depth-1)
		}
		return m
	case kind == 1 && depth > 0:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			list = append(list, value(t, depth-1))
		}
		return list
	case kind == 2:
		return rapid.Int64().Draw(t, "number")
	case kind == 3:
		return rapid.Bool().Draw(t, "bool")
	}
	return rapid.String().Draw(t, "text")
}

func parsed(t *testing.T, text string) any {
	t.Helper()
	var v any
	require.NoError(t, yaml.Unmarshal([]byte(text), &v))
	return whole(v)
}

// whole makes integers of numbers, as Kubernetes reads them.
func whole(v any) any {
	switch v := v.(type) {
	case float64:
		return int64(v)
	case map[string]any:
		for k := range v {
			v[k] = whole(v[k])
		}
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	}
	return v
}

// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
)

func TestDiff(t *testing.T) {
	type spec = v1alpha1.EnvironmentSpec
	env := map[string]v1alpha1.ConfigValue{"A": "1", "NODE_ENV": "test", "LOG": "info"}
	for name, c := range map[string]struct {
		change func(*spec)
		want   string
	}{
		"nothing": {func(*spec) {}, ""},
		"a value": {func(s *spec) { s.Stack.Backend.Container.Image = "node:24" }, "spec.stack.backend.container.image: node:22 -> node:24"},
		"a value of a list": {
			func(s *spec) { s.Stack.Frontend.Container.Ports[0].HostPort = 65535 }, "spec.stack.frontend.container.ports[0].hostPort: 8080 -> 65535",
		},
		"what was not there":       {func(s *spec) { s.Stack.Backend.Replicas = new(int32(3)) }, "spec.stack.backend.replicas: absent -> 3"},
		"a component that goes":    {func(s *spec) { s.Stack.Frontend = nil }, "spec.stack.frontend: ... -> absent"},
		"a list of another length": {func(s *spec) { s.Stack.Backend.Container.Args = []string{"server.js"} }, "spec.stack.backend.container.args: ... -> ..."},
		"the keys of a map, by name": {
			func(s *spec) { s.Stack.Backend.Container.Env = env },
			"spec.stack.backend.container.env.A: absent -> 1\nspec.stack.backend.container.env.NODE_ENV: production -> test",
		},
		"a long value": {func(s *spec) { s.Description = strings.Repeat("é", 100) }, "spec.description: absent -> " + strings.Repeat("é", 60) + "..."},
	} {
		t.Run(name, func(t *testing.T) {
			after := builders.CompleteEnvironment()
			c.change(&after.Spec)
			assert.Equal(t, c.want, strings.Join(Diff(&builders.CompleteEnvironment().Spec, &after.Spec), "\n"))
		})
	}
}

// A diff is bounded, and states how much is left out.
func TestDiffIsBounded(t *testing.T) {
	after := builders.CompleteEnvironment()
	for i := range 40 {
		after.Spec.Stack.Backend.Container.Env[fmt.Sprintf("V%02d", i)] = "x"
	}
	list := Diff(&builders.CompleteEnvironment().Spec, &after.Spec)
	require.Len(t, list, 33)
	assert.Contains(t, list[31], "V31")
	assert.Equal(t, "and 8 more", list[32])
}

// What differs is named, and what does not is not; the reverse change has as many lines.
func TestDiffNamesWhatDiffers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawSpec(t), drawSpec(t)
		assert.Empty(t, Diff(a, a.DeepCopy()))
		forth, back := Diff(a, b), Diff(b, a)
		assert.Equal(t, text(t, a) == text(t, b), len(forth) == 0)
		assert.Len(t, back, len(forth))
		for _, line := range forth {
			assert.Regexp(t, `^(spec\.|and \d+ more)`, line)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var documented = regexp.MustCompile("`([a-zA-Z]+)`")

// A user looks up a field on the page.
func TestThePageHasTheFieldsOfAScenario(t *testing.T) {
	text, err := os.ReadFile("../../../docs/simulation.md")
	require.NoError(t, err)
	for title, of := range map[string]reflect.Type{
		"the scenario": reflect.TypeFor[Scenario](), "a node pool": reflect.TypeFor[NodePool](), "availability": reflect.TypeFor[Availability](),
		"a workload": reflect.TypeFor[Workload](), "an event": reflect.TypeFor[Event](),
	} {
		_, table, found := strings.Cut(string(text), "\n| field of "+title+" | meaning |\n|---|---|\n")
		require.True(t, found, title)
		table, _, _ = strings.Cut(table, "\n\n")
		var inPage, inCode []string
		for row := range strings.Lines(table) {
			for _, m := range documented.FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
				inPage = append(inPage, m[1])
			}
		}
		for _, f := range fieldsOf(of) {
			inCode = append(inCode, nameOf(f))
		}
		assert.Equal(t, inCode, inPage, title)
	}
}

func TestTheScenarioOfThePageIsValid(t *testing.T) {
	text, err := os.ReadFile("../../../docs/simulation.md")
	require.NoError(t, err)
	_, example, found := strings.Cut(string(text), "\n    duration: 24h\n")
	require.True(t, found)
	example, _, _ = strings.Cut(example, "\n\n")
	example = strings.ReplaceAll("\n"+example, "\n    ", "\n") // the block is indented
	s, err := Parse("docs/simulation.md", []byte("duration: 24h"+example), nil)
	require.NoError(t, err)
	assert.Len(t, s.NodePools, 2)
	assert.Len(t, s.Workloads[0].Events, 1)
}

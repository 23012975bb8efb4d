// SPDX-License-Identifier: Apache-2.0

package console

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/v1alpha1"
)

// The documents name each of Berth's kinds that the console lists.
func TestTheDocumentsNameWhatTheConsoleLists(t *testing.T) {
	read := func(path, from, to string) string {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		_, part, found := strings.Cut(string(text), from)
		require.True(t, found, from)
		part, _, _ = strings.Cut(part, to)
		return part
	}
	rights := read("../../docs/security.md", "| `berth-console` |", "\n")
	words := strings.FieldsFunc(strings.ToLower(read("../../docs/console.md", "the command lists", "every 2 seconds")), func(r rune) bool {
		return r < 'a' || r > 'z'
	})
	for i := range kinds {
		if kinds[i].group != v1alpha1.GroupName {
			continue
		}
		name := strings.TrimSuffix(reflect.TypeOf(kinds[i].object).Elem().Name(), "y") // as in SchedulingPolicies
		assert.Contains(t, rights, name)
		named := func(word string) bool { return word != "and" && strings.HasSuffix(kinds[i].resource, word) }
		assert.True(t, slices.ContainsFunc(words, named), kinds[i].resource)
	}
}

// SPDX-License-Identifier: Apache-2.0

package builds

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnOverlayReplacesATextThatIsThereOnce(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "a.go"), []byte("one two two three"), 0o600))
	path, err := writeOverlay(root, dir, []Replacement{{"a.go", "one", "1"}, {"a.go", "three", "3"}})
	require.NoError(t, err)
	var overlay struct{ Replace map[string]string }
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &overlay))
	changed, err := os.ReadFile(overlay.Replace[filepath.Join(root, "a.go")])
	require.NoError(t, err)
	assert.Equal(t, "1 two two 3", string(changed))
	elsewhere := filepath.Join(t.TempDir(), "c.go")
	require.NoError(t, os.WriteFile(elsewhere, []byte("five"), 0o600))
	path, err = writeOverlay(root, dir, []Replacement{{elsewhere, "five", "5"}})
	require.NoError(t, err)
	b, err = os.ReadFile(path)
	require.NoError(t, err)
	assert.Contains(t, string(b), `"`+elsewhere+`"`)
	for _, old := range []string{"two", "four"} {
		_, err = writeOverlay(root, dir, []Replacement{{"a.go", old, ""}})
		assert.ErrorContains(t, err, "not once", old)
	}
	_, err = writeOverlay(root, dir, []Replacement{{"b.go", "one", ""}})
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestACheckerFindsMutantsThatDoNotCompile(t *testing.T) {
	const file = "test/builds/mutant.go"
	use := Replacement{file, "return filepath.Join(root, file)\n}", "return filepath.Join(root, file) + string(name(0))\n}\n\ntype name byte"}
	broken := []Replacement{{file, "return filepath.Join(root, file)", "return 1"}}
	unused := []Replacement{{file, "return filepath.Join(root, file)", "x := 1; return root"}}
	c, err := NewChecker(t.Context(), "../..", []Replacement{use})
	require.NoError(t, err)
	require.NoError(t, c.Check(use))
	assert.ErrorContains(t, c.Check(broken...), "mutant.go")
	assert.ErrorContains(t, c.Check(unused...), "declared and not used: x")
	assert.ErrorContains(t, c.Check(Replacement{file, "no such text", ""}), "0 times")
	assert.ErrorContains(t, c.Check(Replacement{"test/layout/conformance_test.go", "package layout", ""}), "no package")
}

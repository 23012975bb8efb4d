// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// With another version of a module an edit must not be lost in silence: Karpenter would listen on every address.
func TestAnEditOfATextThatIsNotThereIsAnError(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "a.go")
	require.NoError(t, os.WriteFile(path, []byte("listen(all); listen(all)"), 0o400))
	e := edit{module: "example.com/m", file: "a.go", old: "listen(all)", new: "listen(loopback)"}
	require.Error(t, edit{module: e.module, file: e.file, old: "serve(all)"}.apply(root))
	require.Error(t, edit{module: e.module, file: "b.go", old: e.old}.apply(root))

	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, e.apply(root))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "listen(loopback); listen(loopback)", string(b))
}

// With another release of scheduler-plugins, or without the edits, the program is to be looked at.
func TestTheEditsOfSchedulerPluginsFit(t *testing.T) {
	t.Setenv("BERTH_CACHE", t.TempDir())
	root, err := RepoRoot()
	require.NoError(t, err)
	modfile, err := Modfile(t.Context(), root, gangsModule)
	require.NoError(t, err)
	text, err := os.ReadFile(modfile)
	require.NoError(t, err)
	assert.Contains(t, string(text), "replace "+pluginsModule+" => "+filepath.Dir(modfile))
	again, err := Modfile(t.Context(), root, gangsModule)
	require.NoError(t, err)
	assert.Equal(t, modfile, again)
}

func TestADifferentEditIsADifferentBuild(t *testing.T) {
	plain, err := moduleKey("karpenter", source{})
	require.NoError(t, err)
	edited, err := moduleKey("karpenter", source{edits: karpenterEdits})
	require.NoError(t, err)
	again, err := moduleKey("karpenter", source{edits: karpenterEdits})
	require.NoError(t, err)
	assert.NotEqual(t, plain, edited)
	assert.Equal(t, edited, again)
}

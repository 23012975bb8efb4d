// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// makesClient are calls that make a client, or its configuration, of something else than the handle of a plugin.
var makesClient = []string{
	"NewForConfig", "RESTClientFor", "InClusterConfig", "clientcmd.", "rest.Config{", "dynamic.New", "metadata.New", "leaderelection.",
}

// A plugin's clients are behind the fence of leader election, which is where its handle comes from: scheduler/fence.go.
func TestPluginsWriteThroughTheFencedClientsAlone(t *testing.T) {
	found := map[string]int{}
	for _, root := range []string{"plugins", "scheduler"} {
		err := filepath.WalkDir(filepath.Join("..", "..", root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, call := range makesClient {
				assert.Falsef(t, root == "plugins" && strings.Contains(string(text), call), "%s: %s", path, call)
			}
			if n := strings.Count(string(text), "app.WithPlugin("); n > 0 {
				found[filepath.Base(path)] = n
			}
			return nil
		})
		require.NoError(t, err)
	}
	assert.Equal(t, map[string]int{"fence.go": 1, "plugins.go": 1}, found, "plugins are registered by withPlugin, those of other programs by NewCommand")
}

// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAServerOfAnotherVersionIsAnotherBuild(t *testing.T) {
	ours, err := sourceOf(APIServer)
	require.NoError(t, err)
	t.Setenv(ServerEnv, "1.36")
	older, err := sourceOf(APIServer)
	require.NoError(t, err)
	assert.Equal(t, "controlplane "+kubeVersion, ours.module+" "+ours.version)
	assert.Equal(t, "server-1.36 "+servers["1.36"], older.module+" "+older.version)
	stock, err := sourceOf(StockScheduler)
	require.NoError(t, err)
	assert.Equal(t, older.version, stock.version)
	kubectl, err := sourceOf(Kubectl)
	require.NoError(t, err)
	assert.Equal(t, kubeVersion, kubectl.version)
	t.Setenv(ServerEnv, "1.12")
	_, err = sourceOf(APIServer)
	require.ErrorContains(t, err, "1.35, 1.36")
	_, err = sourceOf("kube-proxy")
	require.ErrorContains(t, err, "kube-proxy")
}

// A template can call any method by its name. Where one can be executed, the linker keeps every method of every type:
// a third of the program, and more memory than the controller may take.
func TestTheProgramsCannotExecuteTemplates(t *testing.T) {
	root, err := RepoRoot()
	require.NoError(t, err)
	for name, build := range map[string]func(context.Context, string, io.Writer, bool) (string, error){
		"berth-scheduler": BuildScheduler, "berth-controller": BuildController,
	} {
		path, err := build(t.Context(), root, io.Discard, false)
		require.NoError(t, err)
		program, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.True(t, bytes.Contains(program, []byte("main.main")), "%s: names of functions are in it", name)
		assert.False(t, bytes.Contains(program, []byte("text/template.(*state).evalField")), "%s executes a template", name)
	}
}

// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cached fills a new cache with programs of the versions that this repository names, and returns it.
func cached(t *testing.T) string {
	t.Helper()
	cache := t.TempDir()
	here, err := sourceDir()
	require.NoError(t, err)
	for _, name := range packed {
		src, err := sourceOf(name)
		require.NoError(t, err)
		key, err := moduleKey(filepath.Join(here, src.module), src)
		require.NoError(t, err)
		file := filepath.Join(cache, "controlplane", key, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte("program "+name), 0o755))
	}
	return cache
}

func TestAPrebuiltControlPlaneIsUnpackedAndNotBuilt(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", "")
	t.Setenv(ServerEnv, "")
	t.Setenv("PATH", "") // nothing can be built
	t.Setenv("BERTH_CACHE", cached(t))
	var archives [2]string
	for i := range archives {
		archives[i] = filepath.Join(t.TempDir(), "new", PrebuiltName())
		require.NoError(t, Pack(t.Context(), io.Discard, archives[i]))
	}
	one, err := os.ReadFile(archives[0])
	require.NoError(t, err)
	other, err := os.ReadFile(archives[1])
	require.NoError(t, err)
	assert.True(t, bytes.Equal(one, other), "the same programs give the same archive")

	cache := t.TempDir()
	t.Setenv("BERTH_CACHE", cache)
	t.Setenv(PrebuiltEnv, archives[0])
	for _, name := range packed {
		program, err := Binary(t.Context(), io.Discard, name)
		require.NoError(t, err)
		assert.Contains(t, program, cache)
		content, err := os.ReadFile(program)
		require.NoError(t, err)
		assert.Equal(t, "program "+name, string(content))
		info, err := os.Stat(program)
		require.NoError(t, err)
		assert.NotZero(t, info.Mode()&0o100, "%s can be run", name)
	}
	_, err = Binary(t.Context(), io.Discard, StockScheduler)
	require.Error(t, err, "one that the archive does not have is built")

	one[len(one)-8]++ // the checksum of what is in it
	require.NoError(t, os.WriteFile(archives[1], one, 0o600))
	t.Setenv(PrebuiltEnv, archives[1])
	t.Setenv("BERTH_CACHE", t.TempDir())
	_, err = Binary(t.Context(), io.Discard, Etcd)
	require.ErrorContains(t, err, "checksum")

	found, err := unpack(archives[0], "controlplane/other-version/etcd", filepath.Join(t.TempDir(), "etcd"))
	require.NoError(t, err)
	assert.False(t, found)
	t.Setenv(PrebuiltEnv, filepath.Join(cache, "nowhere"))
	t.Setenv("BERTH_CACHE", t.TempDir())
	_, err = Binary(t.Context(), io.Discard, Etcd)
	require.ErrorContains(t, err, "unpack etcd from")
}

func TestAnArchiveIsFoundInTheRepository(t *testing.T) {
	t.Setenv(PrebuiltEnv, "")
	root := t.TempDir()
	found, err := prebuilt(root)
	require.NoError(t, err)
	assert.Empty(t, found)
	archive := filepath.Join(root, PrebuiltName())
	require.NoError(t, os.WriteFile(archive, nil, 0o600))
	found, err = prebuilt(root)
	require.NoError(t, err)
	assert.Equal(t, archive, found)
	t.Setenv(PrebuiltEnv, PrebuiltName())
	_, err = prebuilt(root)
	require.ErrorContains(t, err, PrebuiltEnv)
}

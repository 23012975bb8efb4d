// SPDX-License-Identifier: Apache-2.0

package program

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/config/controller"
)

func TestTheNamespaceOfAProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "namespace")
	got, err := namespaceOf("", file)
	require.NoError(t, err)
	require.Equal(t, "berth-system", got, "outside of a cluster")

	require.NoError(t, os.WriteFile(file, []byte("spot-tools\n"), 0o600))
	got, err = namespaceOf("", file)
	require.NoError(t, err)
	require.Equal(t, "spot-tools", got, "in a pod")

	got, err = namespaceOf("asked-for", file)
	require.NoError(t, err)
	require.Equal(t, "asked-for", got)
}

func TestPlainMetricsNeedNoAuthorization(t *testing.T) {
	o, err := MetricsOptions(controller.Metrics{BindAddress: ":8080"})
	require.NoError(t, err)
	require.False(t, o.SecureServing)
	require.Nil(t, o.FilterProvider)
}

func TestAWrongCertificateDirectoryIsAnError(t *testing.T) {
	dir := t.TempDir()
	m := controller.Metrics{BindAddress: ":8443", Secure: true, CertDirectory: dir}
	_, err := MetricsOptions(m)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "metrics.certDirectory")

	for _, name := range []string{"tls.crt", "tls.key"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	_, err = MetricsOptions(m)
	require.NoError(t, err)
}

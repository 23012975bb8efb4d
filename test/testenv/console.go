// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/hack/cluster"
)

// Console starts berth-console with TLS on loopback until the test ends, and returns it with its address.
func (w *World) Console(changes ...func(*controller.Console)) (*cluster.Controller, string) {
	w.T.Helper()
	w.ApplyFiles("manifests/rbac/console")
	binary, err := cluster.BuildConsole(w.Ctx, Path("."), os.Stderr, Race())
	require.NoError(w.T, err)
	address := w.FreeAddress()
	c := controller.Default()
	c.Console.BindAddress, c.Console.IntervalSeconds = address, 1
	server := func(kind string) string {
		return WriteFile(w.T, "tls."+kind, ReadFile(w.T, filepath.Join(w.Cluster.Dir(), "pki", "server."+kind)))
	}
	c.Console.CertFile, c.Console.KeyFile = server("crt"), server("key")
	// Tests sign in from one address.
	c.Console.Limits.UnknownTokensPerSecond, c.Console.Limits.UnknownTokensPerSecondPerAddress = 1000, 1000
	for _, change := range changes {
		change(&c.Console)
	}
	b, err := json.Marshal(c)
	require.NoError(w.T, err)
	process, err := w.Cluster.StartController(w.Ctx, cluster.ProgramOptions{
		Binary: binary, Name: "berth-console", User: cluster.BerthConsoleUser, ConfigFile: WriteFile(w.T, "config.yaml", string(b)),
		Args: []string{"-v=7"}, // all that it can log
	})
	require.NoError(w.T, err)
	w.T.Cleanup(func() {
		if w.T.Failed() {
			w.T.Log("end of the log:\n" + process.LogTail(60))
		}
		End(process, false)
	})
	return process, address
}

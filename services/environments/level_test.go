// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLevelOf(t *testing.T) {
	for _, tc := range []struct{ line, want string }{
		{"", "info"},
		{"listening on port 3000", "info"},
		{"ERROR cannot connect", "error"},
		{"[error] 12#12: *1 open() failed", "error"},
		{"2025/01/02 03:04:05 [warn] 7#7: x", "warn"},
		{"2025/01/02 03:04:05 [notice] 1#1: start", "info"},
		{"2025-01-02 03:04:05.123 UTC [1] LOG:  database system is ready", "info"},
		{"2025-01-02 03:04:05.123 UTC [1] FATAL:  password authentication", "error"},
		{"2025-01-02 03:04:05.123 UTC [1] DEBUG1:  x", "debug"},
		{"2025-01-02 03:04:05.123 UTC [1] WARNING:  x", "warn"},
		{"no error occurred", "info"},
		{"the errors page was served", "info"},
		{"npm warn: deprecated", "warn"},
		{"Error: ENOENT", "error"},
		{"panic: runtime error", "error"},
		{`{"level":"warn","msg":"ERROR"}`, "warn"},
		{`{"severity":"ERROR","message":"x"}`, "error"},
		{`{"level":50,"msg":"x"}`, "error"},
		{`{"level":40}`, "warn"},
		{`{"level":30}`, "info"},
		{`{"level":20}`, "debug"},
		{`{"level":-1}`, "debug"},
		{`{"level":true} ERROR`, "error"},
		{`{"lvl":"dbg"}`, "debug"},
		{`{"msg":"all is well"}`, "info"},
		{`time=2025 level=debug msg="ERROR"`, "debug"},
		{`ts=1 lvl="eror"`, "error"},
		{"I0102 03:04:05.000000       1 main.go:1] ERROR", "info"},
		{"E0102 03:04:05.000000       1 main.go:1] x", "error"},
		{"W0102 x", "warn"},
		{"1:M 02 Jan 2025 03:04:05.000 # WARNING overcommit_memory is set to 0", "warn"},
		{"DEBUG:app:x", "debug"},
		{"<error> x", "error"},
		{strings.Repeat("x", 200) + " ERROR", "info"},
	} {
		assert.Equal(t, tc.want, LevelOf(tc.line), tc.line)
	}
}

func FuzzLevelOf(f *testing.F) {
	for _, line := range []string{"", "ERROR x", `{"level":1e999}`, "level=", "I0102", "[warn", "\xff\xfe[error]", "{\"level\":{}}"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		require.Contains(t, []string{levelInfo, levelWarn, levelError, levelDebug}, LevelOf(line))
	})
}

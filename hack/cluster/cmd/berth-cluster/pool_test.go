// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPoolPassesItsEnvironmentAndTheResult(t *testing.T) {
	var out bytes.Buffer
	err := runWith(t.Context(), []string{"sh", "-c", "echo $POOL_TEST; exit 3"}, []string{"POOL_TEST=socket"}, &out)
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 3, exit.ExitCode())
	assert.Equal(t, "socket\n", out.String())
}

func TestAnInterruptedPoolInterruptsItsCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ready, ended := filepath.Join(t.TempDir(), "ready"), filepath.Join(t.TempDir(), "ended")
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if _, err := os.Stat(ready); err == nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	// It ends by itself at some time, in case that this test does not end it.
	script := "trap 'echo yes > " + ended + "; exit 0' INT; echo yes > " + ready + "; for i in $(seq 300); do sleep 0.1; done"
	require.ErrorIs(t, runWith(ctx, []string{"sh", "-c", script}, nil, io.Discard), context.Canceled)
	assert.FileExists(t, ended)
}

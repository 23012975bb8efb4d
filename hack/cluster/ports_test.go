// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// holderMode makes the test binary take ports of the pool in the file it names, until its standard input ends.
const holderMode = "BERTH_CLUSTER_TEST_PORTS"

// Few, and below those that everybody else takes.
const firstTestPort, testPorts = 17900, 20

func testPool(t *testing.T) *portPool {
	t.Helper()
	p, err := newPortPool(filepath.Join(t.TempDir(), "ports"), firstTestPort, firstTestPort+testPorts-1)
	require.NoError(t, err)
	return p
}

func takeN(p *portPool, n int) ([]int, error) {
	var out []int
	for range n {
		port, err := p.take()
		if err != nil {
			return out, err
		}
		out = append(out, port)
	}
	return out, nil
}

// actAsHolder takes half of the ports and reports them.
func actAsHolder() {
	p, err := newPortPool(os.Getenv(holderMode), firstTestPort, firstTestPort+testPorts-1)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	held, err := takeN(p, testPorts/2)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(held)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func TestNoPortIsHandedOutTwice(t *testing.T) {
	p := testPool(t)
	busy, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", loopback(firstTestPort+3))
	require.NoError(t, err)
	defer busy.Close()

	all, err := takeN(p, testPorts)
	require.ErrorContains(t, err, "find a free port between 17900 and 17919: none is left")
	seen := map[int]bool{}
	for _, port := range all {
		assert.False(t, seen[port], port)
		seen[port] = true
	}
	assert.Len(t, all, testPorts-1)
	assert.NotContains(t, all, firstTestPort+3, "a process listens there")
}

func TestNoPortIsHandedOutInTwoProcesses(t *testing.T) {
	p := testPool(t)
	exe, err := os.Executable()
	require.NoError(t, err)
	holder := exec.CommandContext(t.Context(), exe)
	holder.Env = append(os.Environ(), holderMode+"="+p.file.Name())
	holder.Stderr = os.Stderr
	stdin, err := holder.StdinPipe()
	require.NoError(t, err)
	stdout, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	var held []int
	require.NoError(t, json.NewDecoder(stdout).Decode(&held))
	require.Len(t, held, testPorts/2)

	mine, err := takeN(p, testPorts)
	require.ErrorContains(t, err, "none is left")
	assert.Len(t, mine, testPorts/2)
	for _, port := range held {
		assert.NotContains(t, mine, port)
	}

	require.NoError(t, stdin.Close())
	require.NoError(t, holder.Wait())
	again, err := takeN(p, testPorts)
	require.ErrorContains(t, err, "none is left")
	assert.ElementsMatch(t, held, again, "a process that ends leaves its ports")
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/hack/cluster"
)

func TestUpStaysAndDownLeavesNothing(t *testing.T) {
	root, err := cluster.RepoRoot()
	require.NoError(t, err)
	var out bytes.Buffer
	l := local{root: root, dir: filepath.Join(t.TempDir(), ".cluster"), out: &out, serve: freeAddresses(t)}
	t.Cleanup(func() { _ = l.down() })

	require.NoError(t, l.up(t.Context(), size{spot: 2, onDemand: 1, cpu: "4", features: cluster.AllFeatures()}))
	require.Contains(t, out.String(), "Installed manifests/crds")
	require.Contains(t, out.String(), "Berth's controller is ready")
	require.Contains(t, out.String(), "export KUBECONFIG="+l.kubeconfig())
	require.FileExists(t, l.kubeconfig())
	processes, err := cluster.Detached(l.dir)
	require.NoError(t, err)
	require.Len(t, processes, 8)
	for _, address := range []string{l.serve.Berth, l.serve.Environments} {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		_ = conn.Close()
	}

	out.Reset()
	require.NoError(t, l.up(t.Context(), size{}))
	require.Contains(t, out.String(), "already running")

	// A program that ends is started again, as a kubelet does, unless it ends at its start.
	started := time.Now()
	require.Eventually(t, func() bool { return time.Since(started) > 3*time.Second }, 10*time.Second, 100*time.Millisecond)
	for _, name := range []string{"berth-scheduler", "berth-controller"} {
		i := slices.IndexFunc(processes, func(p cluster.DetachedProcess) bool { return p.Name == name })
		require.GreaterOrEqual(t, i, 0)
		require.NoError(t, syscall.Kill(childOf(t, processes[i].PID), syscall.SIGKILL))
		require.Eventually(t, func() bool { return cluster.Restarts(l.dir, name) == 1 }, 30*time.Second, 10*time.Millisecond)
		require.True(t, processes[i].Alive(), name)
	}
	out.Reset()
	require.NoError(t, l.up(t.Context(), size{}))
	require.Contains(t, out.String(), "berth-scheduler has been restarted (restarts: 1). Its log: ")

	kwok := processes[3]
	require.NoError(t, syscall.Kill(kwok.PID, syscall.SIGKILL))
	require.Eventually(t, func() bool { return !kwok.Alive() }, 10*time.Second, 10*time.Millisecond)
	require.ErrorContains(t, l.up(t.Context(), size{}), "ended: kwok")

	require.NoError(t, l.down())
	require.NoDirExists(t, l.dir)
	for _, p := range processes {
		require.False(t, p.Alive(), p.Name)
	}

	out.Reset()
	require.NoError(t, l.down())
	require.Contains(t, out.String(), "No local cluster is running.")
}

func TestFeatures(t *testing.T) {
	for text, want := range map[string]cluster.Features{
		"": nil, "none": nil, "limits": {cluster.Limits}, "environments, limits": {cluster.Limits, cluster.Environments}, "limits records environments": cluster.AllFeatures(),
	} {
		f, err := parseFeatures(text)
		require.NoError(t, err, text)
		require.ElementsMatch(t, want, f, text)
	}
	_, err := parseFeatures("limits,mix")
	require.EqualError(t, err, `--features has "mix": it must be a list of limits, records, environments, or none`)
}

// Two clones on one machine both have services.
func TestUpTakesAFreeAddressInPlaceOfOneThatIsTaken(t *testing.T) {
	a := freeAddresses(t)
	listener, err := net.Listen("tcp", a.Environments)
	require.NoError(t, err)
	defer listener.Close()
	chosen, err := free(t.Context(), a.Of(cluster.AllFeatures()))
	require.NoError(t, err)
	require.Equal(t, a.Berth, chosen.Berth)
	require.NotEqual(t, a.Environments, chosen.Environments)
	other, err := net.Listen("tcp", chosen.Environments)
	require.NoError(t, err)
	require.NoError(t, other.Close())
	chosen, err = free(t.Context(), a.Of(cluster.Features{cluster.Limits}))
	require.NoError(t, err)
	require.Equal(t, cluster.ServiceAddresses{Berth: a.Berth}, chosen)
	require.Equal(t, cluster.ServiceAddresses{}, a.Of(nil))
}

// childOf returns the first child of a process.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	require.NoError(t, err)
	children := strings.Fields(string(b))
	require.NotEmpty(t, children)
	child, err := strconv.Atoi(children[0])
	require.NoError(t, err)
	return child
}

func freeAddresses(t *testing.T) (a cluster.ServiceAddresses) {
	t.Helper()
	for _, address := range []*string{&a.Berth, &a.Environments} {
		var err error
		*address, err = cluster.FreeAddress()
		require.NoError(t, err)
	}
	return a
}

func TestDownSparesAProcessThatTookOverAPID(t *testing.T) {
	dir := t.TempDir()
	l := local{root: dir, dir: filepath.Join(dir, ".cluster"), out: &bytes.Buffer{}}
	p, err := cluster.StartProcess(t.Context(), cluster.ProcessSpec{Name: "other", Path: "sleep", Args: []string{"60"}})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	writeRecord(t, l.dir, p.PID(), "another start time")

	require.NoError(t, l.down())
	select {
	case <-p.Done():
		t.Fatal("a process was stopped that the cluster did not start")
	default:
	}
}

func writeRecord(t *testing.T, dir string, pid int, id string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	b, err := json.Marshal([]cluster.DetachedProcess{{Name: "etcd", PID: pid, ID: id}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "processes.json"), b, 0o600))
}

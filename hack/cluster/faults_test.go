// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// parentMode makes the test binary act as the parent that TestNothingOutlivesAKilledParent kills.
const parentMode = "BERTH_CLUSTER_TEST_PARENT"

type parentReport struct {
	Dir       string
	Processes []DetachedProcess
}

func (c *Cluster) running() []DetachedProcess {
	var out []DetachedProcess
	for _, name := range startOrder {
		p := c.Component(name)
		out = append(out, DetachedProcess{p.Name, p.PID(), p.id})
	}
	return out
}

// actAsParent starts a cluster, reports its processes on standard output and waits to be killed.
func actAsParent() {
	c, err := Start(context.Background(), Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(parentReport{c.Dir(), c.running()})
	select {}
}

func requireGone(t *testing.T, processes []DetachedProcess) {
	t.Helper()
	eventually(t, "all processes are gone", func(context.Context) (bool, error) {
		for _, p := range processes {
			if p.Alive() {
				return false, nil
			}
		}
		return true, nil
	})
}

func TestStopLeavesNoProcessAndNoDirectory(t *testing.T) {
	start := time.Now()
	c, err := Start(t.Context(), Options{})
	require.NoError(t, err)
	t.Logf("started in %s", time.Since(start))
	processes := c.running()
	for _, p := range processes {
		require.True(t, p.Alive(), p.Name)
	}
	require.DirExists(t, c.Dir())
	c.Stop()
	for _, p := range processes {
		require.False(t, p.Alive(), p.Name)
	}
	require.NoDirExists(t, c.Dir())
	_, err = c.StartProcess(t.Context(), ProcessSpec{Name: "late", Path: "sleep"})
	require.Error(t, err)
}

func TestNothingOutlivesAKilledParent(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	parent := exec.Command(exe)
	parent.Env = append(os.Environ(), parentMode+"=1")
	parent.Stderr = os.Stderr
	stdout, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	t.Cleanup(func() { _ = parent.Process.Kill() })

	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	require.NoError(t, err)
	var report parentReport
	require.NoError(t, json.Unmarshal(line, &report))
	require.Len(t, report.Processes, len(startOrder))
	for _, p := range report.Processes {
		require.True(t, p.Alive(), p.Name)
	}

	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	requireGone(t, report.Processes)

	// What a killed parent cannot do, the next start does.
	require.DirExists(t, report.Dir)
	removeAbandonedDirs()
	require.NoDirExists(t, report.Dir)
	require.DirExists(t, shared.Dir(), "a directory in use stays")
}

func TestControlPlaneComesBackWithItsData(t *testing.T) {
	createPod(t, barePod("survivor", "spot-0", nil))
	pod := waitPod(t, "survivor", "pod is ready", isReady)
	for _, name := range []string{APIServer, Etcd} {
		require.NoError(t, shared.StopComponent(name))
		require.NoError(t, shared.StartComponent(t.Context(), name))
	}
	again := waitPod(t, "survivor", "pod is there", func(*corev1.Pod) bool { return true })
	require.Equal(t, pod.UID, again.UID)
	createPod(t, barePod("after-restart", "spot-0", nil))
	waitPod(t, "after-restart", "pod is ready", isReady)
}

func TestRestartedKWOKTakesOverItsNodesAtOnce(t *testing.T) {
	require.NoError(t, shared.StopComponent(KWOK))
	require.Error(t, shared.StartComponent(t.Context(), APIServer), "it is running")
	createPod(t, barePod("waits-for-kwok", "spot-2", nil))
	require.NoError(t, shared.StartComponent(t.Context(), KWOK))
	start := time.Now()
	waitPod(t, "waits-for-kwok", "pod is ready", isReady)
	t.Logf("ready %s after the restart", time.Since(start))
}

func TestProcessSignals(t *testing.T) {
	ctx := t.Context()
	log := filepath.Join(t.TempDir(), "log")
	script := `trap 'echo bye; exit 7' TERM; echo one; echo two; while :; do sleep 0.05; done`
	p, err := StartProcess(ctx, ProcessSpec{Name: "trap", Path: "/bin/sh", Args: []string{"-c", script}, Log: log})
	require.NoError(t, err)
	eventually(t, "it has set its trap", func(context.Context) (bool, error) { return p.LogTail(1) == "two", nil })
	require.Equal(t, -1, p.ExitCode())

	p.Pause()
	p.Terminate()
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err = p.Wait(short)
	require.ErrorIs(t, err, context.DeadlineExceeded, "a paused process does not act on a signal")
	p.Resume()
	code, err := p.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, 7, code)
	require.Equal(t, "two\nbye", p.LogTail(2))
	p.Kill() // no harm
}

func TestStartErrorCarriesTheLog(t *testing.T) {
	_, err := Start(t.Context(), Options{APIServerArgs: []string{"--no-such-flag"}, NoKWOK: true, NoControllerManager: true})
	require.ErrorContains(t, err, "kube-apiserver ended")
	require.ErrorContains(t, err, "unknown flag: --no-such-flag")
}

func TestNamespaceTakesPodsWhenCreated(t *testing.T) {
	pod := barePod("p", "spot-0", nil)
	pod.Namespace = newNamespace(t)
	createPod(t, pod)
}

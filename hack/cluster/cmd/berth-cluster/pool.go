// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"berth.dev/berth/hack/cluster"
)

// endTimeout is how long a command may take to end after it was interrupted.
const endTimeout = 10 * time.Second

// pool runs a command while a pool of control planes serves the suites that it starts.
func pool(ctx context.Context, root string, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("pool", flag.ContinueOnError)
	size := flags.Int("size", 5, "the most control planes at a time; more than two are used while the processors have free capacity")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return fmt.Errorf("pool needs a command\n%s", usage)
	}
	began := time.Now()
	// The socket has the same name each time: go test keeps results by the environment.
	socket := filepath.Join(os.TempDir(), "berth-pool-"+cluster.ShortHash(root)+".sock")
	unlock, err := cluster.Lock(ctx, socket)
	if err != nil {
		return err
	}
	defer unlock()
	p, err := cluster.StartPool(socket, *size, os.Stderr)
	if err != nil {
		return err
	}
	built, err := buildPrograms(ctx, root)
	if err == nil {
		err = runWith(untilOrphaned(ctx), flags.Args(), []string{cluster.PoolEnv + "=" + socket, cluster.BuiltEnv + "=" + built}, out)
	}
	p.Stop()
	if timesErr := cluster.WriteTimes("pool", began); err == nil {
		err = timesErr
	}
	return err
}

// buildPrograms builds what nearly all suites start, and returns the list for cluster.BuiltEnv.
func buildPrograms(ctx context.Context, root string) (string, error) {
	programs := []string{cluster.SchedulerProgram, cluster.ControllerProgram, cluster.ConsoleProgram}
	built, err := cluster.Build(ctx, root, os.Stderr, os.Getenv(cluster.RaceEnv) != "", append(cluster.ControlPlane(), programs...)...)
	if err != nil {
		return "", err
	}
	for i, name := range programs {
		programs[i] = built[name]
	}
	return strings.Join(programs, string(os.PathListSeparator)), nil
}

// runWith runs a command in a process group of its own, which is interrupted when the context ends.
func runWith(ctx context.Context, command, env []string, out io.Writer) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = endTimeout
	err := cmd.Run()
	if ctx.Err() != nil {
		// What is left of the group did not react.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	return err
}

// untilOrphaned ends a context also when the parent of this process has ended.
func untilOrphaned(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	parent := os.Getppid()
	go func() {
		defer cancel()
		for os.Getppid() == parent && ctx.Err() == nil {
			time.Sleep(time.Second)
		}
	}()
	return ctx
}

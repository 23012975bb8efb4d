// SPDX-License-Identifier: Apache-2.0

// Command berth-sim simulates workloads on spot and on-demand nodes. Installed as kubectl-berth-simulate, it is kubectl berth simulate.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/simulator/command"
)

const (
	// The heap of a simulation grows while it begins, and changes all the time: it is collected less often, up to this size.
	garbagePercent = 400
	memoryLimit    = 1800 << 20
)

func main() {
	log.SetLogger(logr.Discard()) // what the rebalancer does is in the results
	debug.SetGCPercent(garbagePercent)
	debug.SetMemoryLimit(memoryLimit)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	if err := command.New(os.Args[0], streams).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1) //nolint:gocritic // the signals end with the process
	}
}

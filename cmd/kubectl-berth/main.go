// SPDX-License-Identifier: Apache-2.0

// Command kubectl-berth is the kubectl plugin: kubectl berth.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // rebalance.windows name zones, and not every machine has a zone database

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"berth.dev/berth/internal/cli"
	"berth.dev/berth/internal/cli/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := cli.New(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}).ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	if !errors.Is(err, command.ErrFailed) { // it has been printed
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	os.Exit(1)
}

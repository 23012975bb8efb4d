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
	_ "time/tzdata" // rebalance.windows name zones, which not every machine knows

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
	if !errors.Is(err, command.ErrFailed) { // that has been said
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	os.Exit(1)
}

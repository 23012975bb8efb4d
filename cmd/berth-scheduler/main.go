// SPDX-License-Identifier: Apache-2.0

// Command berth-scheduler is the stock kube-scheduler with Berth's plugins registered.
package main

import (
	"os"

	"k8s.io/component-base/cli"

	"berth.dev/berth/scheduler"
)

func main() { os.Exit(cli.Run(scheduler.NewCommand("berth-scheduler"))) }

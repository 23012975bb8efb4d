// SPDX-License-Identifier: Apache-2.0

// Command berth-scheduler is the stock kube-scheduler with Berth's plugins registered.
package main

import (
	"os"

	"k8s.io/component-base/cli"

	"berth.dev/berth/cmd/berth-scheduler/app"
)

func main() { os.Exit(cli.Run(app.NewCommand("berth-scheduler"))) }

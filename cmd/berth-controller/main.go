// SPDX-License-Identifier: Apache-2.0

// Command berth-controller is the companion of berth-scheduler: it reconciles CapacityMixes, ResourceLimits, DeploymentRecords and
// Environments.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // rebalance.windows name zones, and an image without a file system has none

	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	collectGarbage()
	if err := newCommand(run).ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "berth-controller:", err)
		os.Exit(1)
	}
}

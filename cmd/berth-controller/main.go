// SPDX-License-Identifier: Apache-2.0

// Command berth-controller is the companion of berth-scheduler: it says how every workload stands to its mix, and brings
// back the replicas that run on the wrong type of node.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // rebalance.windows name zones, and an image without a file system has none

	ctrl "sigs.k8s.io/controller-runtime"

	"berth.dev/berth/internal/config/memorylimit"
)

func main() {
	memorylimit.Apply()
	collectGarbage()
	if err := newCommand(run).ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "berth-controller:", err)
		os.Exit(1)
	}
}

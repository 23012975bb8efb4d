// SPDX-License-Identifier: Apache-2.0

// Command berth-console serves web pages about the mixes, limits, records and environments of a cluster, to users with a bearer token.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	if err := newCommand(run).ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "berth-console:", err)
		os.Exit(1)
	}
}

// SPDX-License-Identifier: Apache-2.0

// Command berth-scheduler-gangs is berth-scheduler with the plugins Coscheduling
// and CapacityScheduling of scheduler-plugins. It is a module of its own, because
// their releases follow those of Kubernetes late: until one compiles with ours, it
// is built with edits (hack/cluster/gangs.go), and plain `go build` fails.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	// The plugins' arguments, so that a wrong field stops the scheduler at start.
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme"
	"sigs.k8s.io/scheduler-plugins/pkg/capacityscheduling"
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"

	"berth.dev/berth/scheduler"
)

func main() {
	os.Exit(cli.Run(scheduler.NewCommand("berth-scheduler-gangs",
		scheduler.Plugin{Name: coscheduling.Name, New: coscheduling.New},
		scheduler.Plugin{Name: capacityscheduling.Name, New: capacityscheduling.New},
	)))
}

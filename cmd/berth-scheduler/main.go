// SPDX-License-Identifier: Apache-2.0

// Command berth-scheduler is the stock kube-scheduler with Berth's plugins, and
// the plugins of scheduler-plugins that Berth offers beside them, registered.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go metrics, as in kube-scheduler
	_ "k8s.io/component-base/metrics/prometheus/version"  // the version metric
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/utils/clock"
	// The plugins' arguments, so that a wrong field stops the scheduler at start.
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme"
	"sigs.k8s.io/scheduler-plugins/pkg/capacityscheduling"
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"

	_ "berth.dev/berth/apis/config/scheme"
	"berth.dev/berth/internal/kube/leaderguard"
	"berth.dev/berth/plugins/capacitymix"
	"berth.dev/berth/plugins/resourcelimit"
	"berth.dev/berth/plugins/topologyspread"
)

func main() {
	leads := make(chan struct{})
	guard := leaderguard.New(clock.RealClock{})
	command := newCommand(func() { close(leads) }, guard,
		app.WithPlugin(capacitymix.Name, capacitymix.NewFactory(capacitymix.WithUngater(leads), capacitymix.WithFence(guard.Shut))),
		app.WithPlugin(resourcelimit.Name, resourcelimit.NewFactory()),
		app.WithPlugin(topologyspread.Name, topologyspread.New),
		app.WithPlugin(coscheduling.Name, coscheduling.New),
		app.WithPlugin(capacityscheduling.Name, capacityscheduling.New),
	)
	os.Exit(cli.Run(command))
}

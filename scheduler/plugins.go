// SPDX-License-Identifier: Apache-2.0

// Package scheduler is the command of kube-scheduler with Berth's plugins, and with those that a program adds. With the package
// upstream, it is the only part of Berth that uses kube-scheduler beyond its framework for plugins (docs/extension-points.md).
package scheduler

import (
	"github.com/spf13/cobra"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go metrics, as in kube-scheduler
	_ "k8s.io/component-base/metrics/prometheus/version"  // the version metric
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"berth.dev/berth/internal/kube/leaderguard"
	_ "berth.dev/berth/internal/mix/arguments/scheme" // so that a wrong field of Berth's plugins stops the scheduler at start
	"berth.dev/berth/internal/policies/decision"
	"berth.dev/berth/plugins/capacitymix"
	"berth.dev/berth/plugins/reservation"
	"berth.dev/berth/plugins/resourcelimit"
	"berth.dev/berth/plugins/schedulingpolicy"
	"berth.dev/berth/plugins/topologyspread"
	"berth.dev/berth/scheduler/upstream"
)

// Plugin is a plugin that a program adds to those of Berth.
type Plugin struct {
	Name string
	New  frameworkruntime.PluginFactory
}

// NewCommand returns the command of a program, with Berth's plugins and more.
func NewCommand(name string, more ...Plugin) *cobra.Command {
	leads := make(chan struct{})
	guard := leaderguard.New(clock.RealClock{})
	store := decision.NewStore(clock.RealClock{})
	recorder := schedulingpolicy.NewRecorder(store)
	placer := &upstream.Placer{}
	holder := reservation.NewHolder(placer)
	preparers := &reservation.Preparers{}
	classifiers := &capacitymix.Classifiers{}
	plugins := []app.Option{
		withPlugin(guard, capacitymix.Name, capacitymix.NewFactory(capacitymix.WithUngater(leads, upstream.Admission{}),
			capacitymix.WithFence(guard.Shut), capacitymix.WithClassifiers(classifiers))),
		withPlugin(guard, resourcelimit.Name, resourcelimit.NewFactory()),
		withPlugin(guard, reservation.Name, reservation.NewFactory(holder, preparers)),
		withPlugin(guard, schedulingpolicy.Name, schedulingpolicy.NewFactory(recorder, classifiers, preparers, upstream.Admission{})),
		withPlugin(guard, topologyspread.Name, topologyspread.New),
	}
	for _, p := range more {
		plugins = append(plugins, app.WithPlugin(p.Name, p.New)) // its clients are its own
	}
	return newCommand(name, &program{
		leads: func() { close(leads) }, guard: guard, decisions: &decisions{store: store}, recorder: recorder, placer: placer,
		holder: holder, plugins: plugins,
	})
}

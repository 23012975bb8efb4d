// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/internal/kube/leaderguard"
	"berth.dev/berth/plugins/reservation"
	"berth.dev/berth/plugins/schedulingpolicy"
	"berth.dev/berth/scheduler/upstream"
)

// program is what a scheduler has beyond kube-scheduler.
type program struct {
	// leads is called once, when the process comes to lead.
	leads     func()
	guard     *leaderguard.Fence
	decisions *decisions
	recorder  *schedulingpolicy.Recorder
	placer    *upstream.Placer
	holder    *reservation.Holder
	plugins   []app.Option
}

// newCommand is kube-scheduler with the plugins of a program. It has the
// flags, the set-up and the run of app.NewSchedulerCommand, which has no hook for
// the moment when the process comes to lead: leads is called then, once. A
// scheduler that does not lead keeps its queue and its caches up to date as well,
// but takes nothing from the queue. One that led and may have lost its lease takes
// nothing from it either: the fence is shut then.
func newCommand(name string, p *program) *cobra.Command {
	opts := options.NewOptions()
	cmd := &cobra.Command{
		Use: name,
		Long: name + ` is kube-scheduler with the plugins of Berth: CapacityMix keeps
the mix of spot and on-demand nodes of a workload, ResourceLimit holds pods to
their size, SchedulingPolicy selects one of the feasible nodes, Reservation
holds capacity for pods that come later. It runs beside the default scheduler,
for pods with its schedulerName, or in its place. Flags and configuration are
those of kube-scheduler; the arguments of the plugins are in
docs/configuration.md.`,
		Args:              cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error { return opts.ComponentGlobalsRegistry.Set() },
		RunE:              func(cmd *cobra.Command, _ []string) error { return p.run(cmd, opts) },
	}
	p.decisions.addFlags(opts.Flags.FlagSet("decisions"))
	verflag.AddFlags(opts.Flags.FlagSet("global"))
	globalflag.AddGlobalFlags(opts.Flags.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, set := range opts.Flags.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, *opts.Flags, columns)
	if err := cmd.MarkFlagFilename("config", "yaml", "yml", "json"); err != nil {
		klog.Background().Error(err, "Completion of --config")
	}
	return cmd
}

// turnOffUnserved turns off the feature gates whose kind the API server does not serve.
func turnOffUnserved(ctx context.Context, opts *options.Options, features featuregate.FeatureGate) error {
	of, ok := features.(featuregate.MutableVersionedFeatureGate)
	if !ok {
		return nil
	}
	client, err := discoveryClient(ctx, opts)
	if err != nil {
		return err
	}
	return unserved(ctx, client, of, discoveryPause, func() { klog.FlushAndExit(klog.ExitFlushTimeout, 1) })
}

func (p *program) run(cmd *cobra.Command, opts *options.Options) error {
	printVersion(cmd.OutOrStdout(), cmd.Name(), cmd.Flags())
	verflag.PrintAndExitIfRequested()
	features := opts.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(opts.Logs, features); err != nil {
		return fmt.Errorf("logging: %w", err)
	}
	cliflag.PrintFlags(cmd.Flags())
	ctx := server.SetupSignalContext()
	var err error
	if opts.InformerName, err = cache.NewInformerName(cmd.Name()); err != nil {
		return err
	}
	if err := turnOffUnserved(ctx, opts, features); err != nil {
		return err
	}
	completed, scheduler, err := app.Setup(ctx, opts, p.plugins...)
	if err != nil {
		return err
	}
	if err := boundInformers(completed.InformerFactory); err != nil {
		return err
	}
	if f, ok := features.(featuregate.MutableFeatureGate); ok {
		f.AddMetrics()
	}
	opts.ComponentGlobalsRegistry.AddMetrics()
	if err := p.decisions.serve(ctx, completed); err != nil {
		return err
	}
	p.guardElection(ctx, completed)
	upstream.Observe(scheduler, p.recorder)
	lead := sync.OnceFunc(func() {
		p.leads()
		go p.holder.Run(ctx)
		go p.recorder.Run(ctx)
	})
	p.placer.Attach(scheduler)
	next := scheduler.NextEntity
	scheduler.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		lead()
		entity, err := next(logger)
		if p.guard.Shut() {
			logger.V(2).Info("No more pods are scheduled", "reason", leaderguard.ErrShut)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return entity, err
	}
	return app.Run(ctx, completed, scheduler)
}

// guardElection ends the process if it may have lost its lease while it was suspended.
func (p *program) guardElection(ctx context.Context, c *config.CompletedConfig) {
	election := c.LeaderElection
	if election == nil {
		return
	}
	limits := leaderguard.Limits{Lease: election.LeaseDuration, RenewDeadline: election.RenewDeadline}
	election.Lock = p.guard.Lock(election.Lock, limits)
	go func() {
		if err := p.guard.Run(ctx, limits); err != nil {
			klog.FromContext(ctx).Error(err, "Exiting")
			klog.FlushAndExit(klog.ExitFlushTimeout, 1)
		}
	}()
}

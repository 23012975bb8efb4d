// SPDX-License-Identifier: Apache-2.0

// Package cli is kubectl berth: the root command, its global flags and version. The command groups are in the packages below.
package cli

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // authentication plugins of cloud providers
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/internal/cli/access"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/doctor"
	"berth.dev/berth/internal/cli/drain"
	"berth.dev/berth/internal/cli/environments"
	"berth.dev/berth/internal/cli/imports"
	"berth.dev/berth/internal/cli/mix"
	"berth.dev/berth/internal/cli/policies"
	"berth.dev/berth/internal/cli/proxy"
	"berth.dev/berth/internal/cli/records"
	"berth.dev/berth/internal/cli/reports"
	"berth.dev/berth/internal/cli/reservations"
	"berth.dev/berth/internal/cli/snapshot"
	"berth.dev/berth/internal/cli/top"
	"berth.dev/berth/internal/cli/ui"
	"berth.dev/berth/internal/live"
)

const about = `Shows whether workloads satisfy their mix of spot and on-demand nodes, why pods are on their nodes, and what a change of a mix would do.
Only pause, resume, drain, import, env and the calls through proxy change anything; all other commands only read the cluster.`

// New returns the command kubectl-berth.
func New(streams genericiooptions.IOStreams) *cobra.Command {
	// Commands print their errors themselves. Without a logger, controller-runtime prints a stack 30 s after the start.
	log.SetLogger(logr.Discard())
	return root(streams, genericclioptions.NewConfigFlags(true))
}

// reportsOf are the reports of the console, with the clients and the global flags of a command.
func reportsOf(o *command.Options) reports.Reports {
	return reports.Reports{Connect: func(context.Context) (*rest.Config, live.Installation, error) {
		config, err := o.RestConfig()
		return config, access.Installation(o), err
	}}
}

func root(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	o := &command.Options{
		IOStreams: streams, Now: time.Now, Flags: flags.WithDiscoveryBurst(300).WithDiscoveryQPS(50),
	}
	root := &cobra.Command{
		Use:         "kubectl-berth",
		Short:       "Show and explain mixes of spot and on-demand nodes; manage environments",
		Long:        about,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl berth"},
		// main prints the error once; the usage would hide it.
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	o.Flags.AddFlags(root.PersistentFlags())
	root.PersistentFlags().StringVar(&o.SchedulerConfig, "scheduler-config", "",
		"The KubeSchedulerConfiguration file of berth-scheduler. Default: the ConfigMap that its Deployment mounts, "+
			"if both exist and may be read; otherwise the built-in configuration.")
	root.PersistentFlags().StringVar(&o.SystemNamespace, "system-namespace", "berth-system", "The namespace in which Berth is installed.")
	root.AddCommand(mix.NewStatus(o), mix.NewExplain(o), mix.NewHistory(o), mix.NewPlan(o), mix.NewPause(o), mix.NewResume(o),
		mix.NewNodes(o), mix.NewSavings(o), mix.NewSuggest(o), snapshot.New(o), drain.New(o), doctor.New(o), policies.New(o),
		reservations.New(o), records.New(o), environments.New(o), imports.New(o), proxy.New(o),
		ui.New(o, reportsOf(o).Plan, reportsOf(o)), top.New(o), newVersion(o))
	root.Args = command.NoArguments
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	command.ShowUsage(root)
	_ = root.RegisterFlagCompletionFunc("namespace", o.CompleteNamespaces) // fails for a flag that does not exist
	return root
}

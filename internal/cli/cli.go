// SPDX-License-Identifier: Apache-2.0

// Package cli is kubectl berth: the root command, its global flags and version. The command groups are in the packages below.
package cli

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // authentication plugins of cloud providers
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/doctor"
	"berth.dev/berth/internal/cli/environments"
	"berth.dev/berth/internal/cli/imports"
	"berth.dev/berth/internal/cli/mix"
	"berth.dev/berth/internal/cli/policies"
	"berth.dev/berth/internal/cli/proxy"
	"berth.dev/berth/internal/cli/records"
	"berth.dev/berth/internal/cli/reservations"
	"berth.dev/berth/internal/cli/top"
	"berth.dev/berth/internal/cli/ui"
	"berth.dev/berth/internal/console"
)

const about = `Shows whether workloads satisfy their mix of spot and on-demand nodes, why pods are on their nodes, and what a change of a mix would do.
Only import, env and the calls through proxy change anything; all other commands only read the cluster.`

// New returns the command kubectl-berth.
func New(streams genericiooptions.IOStreams) *cobra.Command {
	// Commands print their errors themselves. Without a logger, controller-runtime prints a stack 30 s after the start.
	log.SetLogger(logr.Discard())
	return root(streams, genericclioptions.NewConfigFlags(true))
}

// Installation is what the global flags of a command name of an installation of Berth.
type Installation struct {
	// SystemNamespace is the namespace of Berth, and SchedulerConfig a file of its scheduler, or "" for what is installed.
	SystemNamespace, SchedulerConfig string
}

// Run runs a command with the configuration of its clients, which reads no kubeconfig. Warnings are written to out too.
func (i Installation) Run(ctx context.Context, config *rest.Config, out io.Writer, args ...string) error {
	cmd := root(streamsTo(out), flagsOf(config))
	cmd.SetArgs(append(args, "--system-namespace", i.SystemNamespace, "--scheduler-config", i.SchedulerConfig))
	return cmd.ExecuteContext(ctx)
}

// Plan makes a plan with the configuration of its clients.
func (i Installation) Plan(ctx context.Context, config *rest.Config, q console.Question) (*console.Plan, error) {
	o := &command.Options{
		IOStreams: streamsTo(io.Discard), Now: time.Now, Flags: flagsOf(config),
		SystemNamespace: i.SystemNamespace, SchedulerConfig: i.SchedulerConfig,
	}
	o.Flags.Namespace = &q.Namespace
	return mix.Planner(o)(ctx, q)
}

func streamsTo(out io.Writer) genericiooptions.IOStreams {
	return genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out}
}

// flagsOf are the flags of a command whose clients have a configuration.
func flagsOf(config *rest.Config) *genericclioptions.ConfigFlags {
	flags := genericclioptions.NewConfigFlags(true)
	flags.KubeConfig, flags.APIServer = new(os.DevNull), &config.Host
	flags.WrapConfigFn = func(*rest.Config) *rest.Config { return rest.CopyConfig(config) }
	return flags
}

// runner runs the commands of the console as this one runs: with its clients and global flags.
func runner(o *command.Options) console.Command {
	return func(ctx context.Context, out io.Writer, args ...string) error {
		config, err := o.RestConfig()
		if err != nil {
			return err
		}
		return Installation{o.SystemNamespace, o.SchedulerConfig}.Run(ctx, config, out, args...)
	}
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
	root.AddCommand(mix.NewStatus(o), mix.NewExplain(o), mix.NewHistory(o), mix.NewPlan(o), mix.NewNodes(o), doctor.New(o), policies.New(o),
		reservations.New(o), records.New(o), environments.New(o), imports.New(o), proxy.New(o), ui.New(o, mix.Planner(o), runner(o)),
		top.New(o), newVersion(o))
	_ = root.RegisterFlagCompletionFunc("namespace", o.CompleteNamespaces) // fails for a flag that does not exist
	return root
}

// SPDX-License-Identifier: Apache-2.0

// Package cli is kubectl berth: it shows how workloads stand to their mixes,
// why pods are where they are, and what a change would do. Only import and env
// write.
package cli

import (
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the ways in that kubeconfigs of clouds name

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/doctor"
	"berth.dev/berth/internal/cli/environments"
	"berth.dev/berth/internal/cli/limits"
	"berth.dev/berth/internal/cli/mix"
	"berth.dev/berth/internal/cli/records"
)

const about = `Shows how workloads satisfy their mix of spot and on-demand nodes, why pods are where they are,
and what a change of a mix would do. Only import and env change anything; all else reads the cluster.`

// New returns the command kubectl-berth.
func New(streams genericiooptions.IOStreams) *cobra.Command {
	o := &command.Options{
		IOStreams: streams, Now: time.Now,
		Flags: genericclioptions.NewConfigFlags(true).WithDiscoveryBurst(300).WithDiscoveryQPS(50),
	}
	root := &cobra.Command{
		Use:         "kubectl-berth",
		Short:       "Spot and on-demand mixes of workloads",
		Long:        about,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl berth"},
		// main says once what went wrong; the usage would hide it.
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	o.Flags.AddFlags(root.PersistentFlags())
	root.PersistentFlags().StringVar(&o.SchedulerConfig, "scheduler-config", "",
		"The KubeSchedulerConfiguration that berth-scheduler runs with. Without it: the ConfigMap that its Deployment mounts, "+
			"where there is one and both may be read; else the defaults.")
	root.PersistentFlags().StringVar(&o.SystemNamespace, "system-namespace", "berth-system", "The namespace that Berth is installed in.")
	root.AddCommand(mix.NewStatus(o), mix.NewExplain(o), mix.NewPlan(o), mix.NewNodes(o), doctor.New(o), records.New(o), environments.New(o), limits.NewImport(o), newVersion(o))
	_ = root.RegisterFlagCompletionFunc("namespace", o.CompleteNamespaces) // fails for a flag that does not exist
	return root
}

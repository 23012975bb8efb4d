// SPDX-License-Identifier: Apache-2.0

// Package cli is kubectl berth: it shows how workloads stand to their mixes,
// why pods are where they are, and what a change would do. Only import and env
// write.
package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the ways in that kubeconfigs of clouds name
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/live"
	"berth.dev/berth/internal/config/buildinfo"
)

const about = `Shows how workloads satisfy their mix of spot and on-demand nodes, why pods are where they are,
and what a change of a mix would do. Only import and env change anything; all else reads the cluster.`

// options are what all commands share.
type options struct {
	genericiooptions.IOStreams
	flags           *genericclioptions.ConfigFlags
	allNamespaces   bool
	output          string
	schedulerConfig string
	systemNamespace string
	now             func() time.Time
}

// New returns the command kubectl-berth.
func New(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{
		IOStreams: streams, now: time.Now,
		flags: genericclioptions.NewConfigFlags(true).WithDiscoveryBurst(300).WithDiscoveryQPS(50),
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
	o.flags.AddFlags(root.PersistentFlags())
	root.PersistentFlags().StringVar(&o.schedulerConfig, "scheduler-config", "",
		"The KubeSchedulerConfiguration that berth-scheduler runs with. Without it: the ConfigMap that its Deployment mounts, "+
			"where there is one and both may be read; else the defaults.")
	root.PersistentFlags().StringVar(&o.systemNamespace, "system-namespace", "berth-system", "The namespace that Berth is installed in.")
	root.AddCommand(newStatus(o), newExplain(o), newPlan(o), newNodes(o), newDoctor(o), newRecords(o), newEnv(o), newImport(o), newVersion(o))
	complete := func(_ *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		return o.complete(&corev1.NamespaceList{}, "", toComplete)
	}
	_ = root.RegisterFlagCompletionFunc("namespace", complete) // fails for a flag that does not exist
	return root
}

// outputFlag adds -o to a command that has a table.
func (o *options) outputFlag(cmd *cobra.Command, formats ...string) {
	formats = append([]string{"table"}, formats...)
	cmd.Flags().StringVarP(&o.output, "output", "o", formats[0], "Output format, one of: "+strings.Join(formats, ", ")+".")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.output == "" || slices.Contains(formats, o.output) {
			return run(cmd, args)
		}
		return fmt.Errorf("unknown output format %q (see --help)", o.output)
	}
}

func (o *options) allNamespacesFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Look at all namespaces.")
}

// namespace is the one that flags and kubeconfig name, "" for all.
func (o *options) namespace() (string, error) {
	if o.allNamespaces {
		return "", nil
	}
	namespace, _, err := o.flags.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// cluster returns the namespace that a command is about, and a client.
func (o *options) cluster() (string, client.Client, error) {
	namespace, err := o.namespace()
	if err != nil {
		return "", nil, err
	}
	c, err := o.client()
	return namespace, c, err
}

// restConfig is how the API server is reached.
func (o *options) restConfig() (*rest.Config, error) {
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 300
	config.UserAgent = "kubectl-berth/" + buildinfo.Version()
	return config, nil
}

// client returns a client for Kubernetes' kinds and Berth's.
func (o *options) client() (client.Client, error) {
	config, err := o.restConfig()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("make the scheme: %w", err)
		}
	}
	mapper, err := o.flags.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
}

// settings finds the scheduler's configuration.
func (o *options) settings(ctx context.Context, c client.Client) (*live.Settings, error) {
	if o.schedulerConfig != "" {
		return live.FromFile(o.schedulerConfig)
	}
	return live.FromInstalled(ctx, c, o.systemNamespace)
}

// load reads a namespace, or all with "", and says on stderr what it could not read.
func (o *options) load(ctx context.Context, namespace string) (client.Client, *live.Cluster, error) {
	c, err := o.client()
	if err != nil {
		return nil, nil, err
	}
	settings, err := o.settings(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	cluster, err := live.Load(ctx, c, settings, namespace)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range cluster.Problems {
		o.warn("%s", p)
	}
	return c, cluster, nil
}

func (o *options) warn(format string, args ...any) {
	fmt.Fprintf(o.ErrOut, "Warning: "+format+"\n", args...)
}

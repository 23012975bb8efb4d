// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/live"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/config/buildinfo"
)

// OutputFlag adds -o to a command that has a table.
func (o *Options) OutputFlag(cmd *cobra.Command, formats ...string) {
	formats = append([]string{"table"}, formats...)
	cmd.Flags().StringVarP(&o.Output, "output", "o", formats[0], "Output format, one of: "+strings.Join(formats, ", ")+".")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.Output == "" || slices.Contains(formats, o.Output) {
			return run(cmd, args)
		}
		return fmt.Errorf("unknown output format %q (see --help)", o.Output)
	}
}

func (o *Options) AllNamespacesFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&o.AllNamespaces, "all-namespaces", "A", false, "Look at all namespaces.")
}

// Namespace is the one that flags and kubeconfig name, "" for all.
func (o *Options) Namespace() (string, error) {
	if o.AllNamespaces {
		return "", nil
	}
	namespace, _, err := o.Flags.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// Cluster returns the namespace that a command is about, and a client.
func (o *Options) Cluster() (string, client.Client, error) {
	namespace, err := o.Namespace()
	if err != nil {
		return "", nil, err
	}
	c, err := o.Client()
	return namespace, c, err
}

// RestConfig is how the API server is reached.
func (o *Options) RestConfig() (*rest.Config, error) {
	config, err := o.Flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 300
	config.UserAgent = "kubectl-berth/" + buildinfo.Version()
	return config, nil
}

// Client returns a client for Kubernetes' kinds and Berth's.
func (o *Options) Client() (client.Client, error) {
	config, err := o.RestConfig()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("make the scheme: %w", err)
		}
	}
	mapper, err := o.Flags.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
}

// Settings finds the scheduler's configuration.
func (o *Options) Settings(ctx context.Context, c client.Client) (*live.Settings, error) {
	if o.SchedulerConfig != "" {
		return live.FromFile(o.SchedulerConfig)
	}
	return live.FromInstalled(ctx, c, o.SystemNamespace)
}

// Load reads a namespace, or all with "", and says on stderr what it could not read.
func (o *Options) Load(ctx context.Context, namespace string) (client.Client, *live.Cluster, error) {
	c, err := o.Client()
	if err != nil {
		return nil, nil, err
	}
	settings, err := o.Settings(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	cluster, err := live.Load(ctx, c, settings, namespace)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range cluster.Problems {
		o.Warn("%s", p)
	}
	return c, cluster, nil
}

func (o *Options) Warn(format string, args ...any) {
	fmt.Fprintf(o.ErrOut, "Warning: "+format+"\n", args...)
}

// Print writes v as JSON or YAML if that was requested.
func (o *Options) Print(v any) (bool, error) {
	switch o.Output {
	case printers.JSON:
		out, err := json.MarshalIndent(v, "", "    ")
		if err == nil {
			_, err = fmt.Fprintln(o.Out, string(out))
		}
		return true, err
	case printers.YAML:
		out, err := yaml.Marshal(v)
		if err == nil {
			_, err = o.Out.Write(out)
		}
		return true, err
	}
	return false, nil
}

// Sentence writes a sentence as a line of its own.
func (o *Options) Sentence(sentence string) {
	fmt.Fprintln(o.Out, strings.ReplaceAll(strings.TrimRight(sentence, ". "), "\n", " ")+".")
}

// Options are what all commands share.
type Options struct {
	genericiooptions.IOStreams
	Flags           *genericclioptions.ConfigFlags
	AllNamespaces   bool
	Output          string
	SchedulerConfig string
	SystemNamespace string
	Now             func() time.Time
}

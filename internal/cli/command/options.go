// SPDX-License-Identifier: Apache-2.0

// Package command has what all commands share: global flags, streams, clients, files, completion.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/config/buildinfo"
	kubeclient "berth.dev/berth/internal/kube/client"
)

// Options are the global flags, the streams and the clients that all commands share.
type Options struct {
	genericiooptions.IOStreams
	Flags           *genericclioptions.ConfigFlags
	AllNamespaces   bool
	selector        labels.Selector
	Output          string
	SchedulerConfig string
	SystemNamespace string
	Now             func() time.Time
	// WatchInterval is the time from one reading of --watch to the next, 0 for the usual one.
	WatchInterval time.Duration
	// changes are what --watch has printed, nil without it.
	changes *changes
}

// OutputFlag adds -o to a command that has a table.
func (o *Options) OutputFlag(cmd *cobra.Command, formats ...string) {
	formats = append([]string{printers.Text}, formats...)
	cmd.Flags().StringVarP(&o.Output, "output", "o", formats[0], "Output format, one of: "+strings.Join(formats, ", ")+".")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	Check(cmd, func() error {
		if o.Output == "" || slices.Contains(formats, o.Output) {
			return nil
		}
		return fmt.Errorf("--output is %q: it must be one of %s", o.Output, strings.Join(formats, ", "))
	})
}

// Check has a command check the values of its flags before it runs.
func Check(cmd *cobra.Command, check func() error) {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := check(); err != nil {
			return &UsageError{cmd, err}
		}
		return run(cmd, args)
	}
}

// AllNamespacesFlag adds -A.
func (o *Options) AllNamespacesFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&o.AllNamespaces, "all-namespaces", "A", false, "Show all namespaces.")
}

// Selector is the one of -l.
func (o *Options) Selector() labels.Selector { return o.selector }

// SelectorFlag adds -l, a label selector for the objects of a list, or for what the text names.
func (o *Options) SelectorFlag(cmd *cobra.Command, of ...string) {
	text := cmd.Flags().StringP("selector", "l", "", "Label selector"+strings.Join(append([]string{""}, of...), " ")+", such as team=shop,tier!=test.")
	Check(cmd, func() (err error) {
		if o.selector, err = labels.Parse(*text); err != nil {
			return fmt.Errorf("--selector is %q: %w", *text, err)
		}
		return nil
	})
}

// Namespace returns the namespace of the flags or the kubeconfig, "" for all.
func (o *Options) Namespace() (string, error) {
	if o.AllNamespaces {
		return "", nil
	}
	namespace, _, err := o.Flags.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// GivenNamespace returns the namespace of -n, "" without it.
func (o *Options) GivenNamespace() string { return ptr.Deref(o.Flags.Namespace, "") }

// WithCluster returns a RunE that has the namespace of the command and a client.
func (o *Options) WithCluster(
	run func(ctx context.Context, c client.Client, namespace string, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		namespace, c, err := o.Cluster()
		if err != nil {
			return err
		}
		return run(cmd.Context(), c, namespace, args)
	}
}

// Cluster returns the namespace of the command and a client.
func (o *Options) Cluster() (string, client.Client, error) {
	namespace, err := o.Namespace()
	if err != nil {
		return "", nil, err
	}
	c, err := o.Client()
	return namespace, c, err
}

// RestConfig returns the configuration of clients.
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

// Client returns a client for the kinds of Kubernetes and Berth.
func (o *Options) Client() (client.Client, error) {
	config, err := o.RestConfig()
	if err != nil {
		return nil, err
	}
	scheme, err := kubeclient.Scheme()
	if err != nil {
		return nil, err
	}
	mapper, err := o.Flags.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
}

// Warn writes a warning to stderr.
func (o *Options) Warn(format string, args ...any) {
	o.note(fmt.Sprintf("Warning: "+format, args...))
}

// Note writes a sentence to stderr, with --watch once.
func (o *Options) Note(format string, args ...any) { o.note(fmt.Sprintf(format, args...)) }

func (o *Options) note(text string) {
	if o.changes.once(text) {
		fmt.Fprintln(o.ErrOut, text)
	}
}

// Print writes v as JSON or YAML if that was requested.
func (o *Options) Print(v any) (bool, error) {
	switch o.Output {
	case printers.JSON:
		out, err := json.MarshalIndent(v, "", "    ")
		if err == nil && o.changes.isNew(string(out)) {
			_, err = fmt.Fprintln(o.Out, string(out))
		}
		return true, err
	case printers.YAML:
		out, err := yaml.Marshal(v)
		if err == nil && o.changes.isNew(string(out)) {
			_, err = o.Out.Write(out)
		}
		return true, err
	}
	return false, nil
}

// Hint writes a sentence after a table, with --watch once.
func (o *Options) Hint(text string) {
	if o.changes.once(text) {
		fmt.Fprintf(o.Out, "\n%s\n", text)
	}
}

// Conditions writes a sentence for each condition.
func (o *Options) Conditions(list []metav1.Condition) {
	for _, c := range list {
		o.Sentence(fmt.Sprintf("%s is %s since %s ago, %s: %s", c.Type, c.Status, o.Age(c.LastTransitionTime), c.Reason, c.Message))
	}
}

// Sentence writes a sentence as a line of its own.
func (o *Options) Sentence(sentence string) {
	fmt.Fprintln(o.Out, strings.ReplaceAll(strings.TrimRight(sentence, ". "), "\n", " ")+".")
}

// PrintList writes a list in the requested format: v as JSON or YAML, names, or the table, or a sentence if it has no rows. Warnings
// follow the table.
func (o *Options) PrintList(v any, t *printers.Table, empty string, warnings ...string) error {
	if o.Output == printers.Name {
		o.PrintNames(t)
		return nil
	}
	if done, err := o.Print(v); done {
		return err
	}
	if len(t.Rows) == 0 {
		o.note(empty)
		return nil
	}
	return o.WriteTables(warnings, t)
}

// PrintNames prints the names of rows, with --watch those that are new.
func (o *Options) PrintNames(tables ...*printers.Table) {
	for _, t := range tables {
		for _, name := range t.Names {
			if o.changes.once(name) {
				fmt.Fprintln(o.Out, name)
			}
		}
	}
}

// WriteTables writes the tables that have rows, with an empty line between them, and the warnings after them.
func (o *Options) WriteTables(warnings []string, tables ...*printers.Table) error {
	tables = slices.DeleteFunc(tables, func(t *printers.Table) bool { return len(t.Rows) == 0 })
	for i, t := range tables {
		if o.Output == printers.Wide {
			t.Header = append(t.Header, t.Wide...)
		}
		if err := o.writeTable(t, i == 0); err != nil {
			return err
		}
	}
	for _, warning := range warnings {
		o.Warn("%s", warning)
	}
	return nil
}

func (o *Options) writeTable(t *printers.Table, first bool) error {
	if o.changes != nil {
		return o.changes.write(o.Out, t)
	}
	if !first {
		fmt.Fprintln(o.Out)
	}
	return t.Write(o.Out)
}

// PrintObjects writes objects as one or as a List, if JSON or YAML was requested.
func (o *Options) PrintObjects(objects []any) error {
	v := any(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if len(objects) == 1 {
		v = objects[0]
	}
	_, err := o.Print(v)
	return err
}

// ForPeople reports whether the output is a table or text.
func (o *Options) ForPeople() bool {
	return o.Output == "" || o.Output == printers.Text || o.Output == printers.Wide
}

// Age is how long ago a time was.
func (o *Options) Age(t metav1.Time) string { return printers.Age(o.Now(), t.Time) }

// ErrFailed is the error of a command that has already printed what failed.
var ErrFailed = errors.New("a check failed")

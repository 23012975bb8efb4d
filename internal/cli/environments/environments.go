// SPDX-License-Identifier: Apache-2.0

// Package environments has the commands about Environments. What they do below flags and printing is in internal/environments.
package environments

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/overview"
)

const about = `Shows and changes Environments: whole applications that are started and stopped as one. All commands use the Kubernetes API with your own
rights; the gRPC service need not run. NAME is the name of the object, which is the id in the gRPC service.`

const examples = `  # List environments
  kubectl berth env list -A -o wide

  # Create one from a predefined stack, and show it
  kubectl berth env create shop --stack web-postgres
  kubectl berth env get shop

  # Scale the backend, and undo it
  kubectl berth env scale shop backend=3
  kubectl berth env history shop
  kubectl berth env rollback shop --to-revision 1`

const aboutList = `Lists the environments of a namespace, as the controller last reported them. READY is ready/all components.

-l selects by labels of the object, --spec-label by spec.labels, which the clients of the gRPC service set.`

var environmentKind = command.Kind[*v1alpha1.Environment, Summary]{
	Kind: "Environment", Resource: overview.EnvironmentsResource, With: ", with environments",
	NewList: func() client.ObjectList { return &v1alpha1.EnvironmentList{} },
	Key:     "environments", Nouns: "environments", Of: environmentOf,
	Observed: func(e *v1alpha1.Environment) int64 { return e.Status.ObservedGeneration },
	Unseen:   "no controller reconciles environments: run berth-environments (see kubectl berth doctor)",
	Header:   []string{"STACK", "VERSION", "PHASE", "READY"},
	Wide:     []string{"DISPLAY-NAME", "RUNS-IN", "REVISION", "LABELS", "CONTROLLER", "MESSAGE"},
	Row: func(_ *command.Options, s *Summary) []any {
		return []any{
			s.Stack, s.Version, s.Phase, s.Ready, s.DisplayName, s.RunsIn, s.Revision, labels.Set(s.Labels), s.Controller, s.Message,
		}
	},
}

// Summary is one Environment.
type Summary struct {
	Namespace   string                    `json:"namespace"`
	Name        string                    `json:"name"`
	DisplayName string                    `json:"displayName,omitempty"`
	Stack       string                    `json:"stack,omitempty"`
	Version     string                    `json:"version,omitempty"`
	Phase       v1alpha1.EnvironmentPhase `json:"phase"`
	Message     string                    `json:"message,omitempty"`
	// Ready is 3/4: components that are, of all.
	Ready     string             `json:"ready,omitempty"`
	RunPolicy v1alpha1.RunPolicy `json:"runPolicy"`
	// RunsIn is the namespace of its pods.
	RunsIn     string              `json:"runsIn,omitempty"`
	Labels     map[string]string   `json:"labels,omitempty"`
	Revision   int64               `json:"revision,omitempty"`
	Controller display.ReportState `json:"controller"`
	Created    metav1.Time         `json:"created"`
}

// New returns the command env.
func New(o *command.Options) *cobra.Command {
	cmd := listEnvironments(o, "env")
	cmd.Aliases = []string{"environments", "environment"}
	cmd.Short, cmd.Long, cmd.Example = "Manage environments: applications that are started and stopped as one", about, examples
	cmd.AddCommand(
		listEnvironments(o, "list"), newGet(o), newLogs(o), newHistory(o), newRollback(o), newStart(o), newStop(o),
		newRestart(o), newScale(o), newStacks(o), newCreate(o), newBackup(o), newRestore(o), newOrphans(o),
		newBackupDatabase(o), newDatabaseBackups(o), newRestoreDatabase(o),
	)
	return cmd
}

// listEnvironments is `env`, and the same as `env list`.
func listEnvironments(o *command.Options, use string) *cobra.Command {
	var specLabels []string
	var wanted map[string]string
	cmd := environmentKind.List(o, &cobra.Command{
		Use:     use,
		Short:   "List the environments of a namespace",
		Long:    aboutList,
		Example: "  kubectl berth env list -A -l team=shop\n  kubectl berth env list --spec-label environment=staging -o wide",
	}, func(e *v1alpha1.Environment) bool { return labelled(e, wanted) })
	cmd.Flags().StringSliceVar(&specLabels, "spec-label", nil,
		"Show only environments with key=value in spec.labels. Can be given several times; all must match.")
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		wanted, err = parseLabels(specLabels)
		return err
	}
	return cmd
}

// anEnvironment is a command about one environment.
func anEnvironment(o *command.Options, use, short, long, example string,
	run func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error,
) *cobra.Command {
	return environmentKind.One(o, &cobra.Command{Use: use, Short: short, Long: long, Example: example}, environmentNamed, run)
}

// environmentNamed reads an environment. An error names the environment that has the name as its display name.
func environmentNamed(ctx context.Context, c client.Client, namespace, name string) (*v1alpha1.Environment, error) {
	env, err := environmentKind.Get(ctx, c, namespace, name)
	if !apierrors.IsNotFound(err) {
		return env, err
	}
	object := name[strings.LastIndex(name, "/")+1:]
	var list v1alpha1.EnvironmentList
	if c.List(ctx, &list, client.InNamespace(namespace)) == nil {
		for i := range list.Items {
			if list.Items[i].Spec.DisplayName == name {
				return nil, fmt.Errorf("environment %q not found in namespace %s: the environment with this display name is %s", object,
					namespace, list.Items[i].Name)
			}
		}
	}
	return nil, fmt.Errorf("environment %q not found in namespace %s", object, namespace)
}

// parseLabels reads key=value pairs. What is after the first "=" is the value, whatever it is.
func parseLabels(pairs []string) (map[string]string, error) {
	out := map[string]string{}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--spec-label is %q: it must be key=value", pair)
		}
		if other, twice := out[key]; twice && other != value {
			return nil, fmt.Errorf("--spec-label has key %q with values %q and %q: no environment has both", key, other, value)
		}
		out[key] = value
	}
	return out, nil
}

// labelled reports whether the spec.labels of an environment have all that is wanted.
func labelled(e *v1alpha1.Environment, wanted map[string]string) bool {
	for key, value := range wanted {
		if have, ok := e.Spec.Labels[key]; !ok || string(have) != value {
			return false
		}
	}
	return true
}

func environmentOf(e *v1alpha1.Environment) Summary {
	s := Summary{
		Namespace: e.Namespace, Name: e.Name, DisplayName: e.Spec.DisplayName, Stack: e.Spec.Stack.Name, Version: e.Spec.Stack.Version,
		Phase: render.PhaseOf(e), Message: e.Status.Message, Ready: e.Status.Ready, RunPolicy: cmp.Or(e.Spec.RunPolicy,
			v1alpha1.RunPolicyRunning),
		RunsIn: e.Status.Namespace, Revision: e.Status.Revision,
		Controller: display.Reported(e.Status.ObservedGeneration, e.Generation), Created: e.CreationTimestamp,
	}
	for key, value := range e.Spec.Labels {
		if s.Labels == nil {
			s.Labels = map[string]string{}
		}
		s.Labels[key] = string(value)
	}
	return s
}

// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/logs"
	"berth.dev/berth/internal/environments/endedlogs"
	"berth.dev/berth/internal/environments/podlogs"
	"berth.dev/berth/internal/environments/render"
)

const aboutLogs = `Prints the logs of the containers of an environment: of all components in the order of their time, each line with its component, or of one
component as it was written. --ended adds containers that no longer exist, if the controller keeps their last lines
(environments.endedLogLines). -f continues with new lines, also of pods that start later. The kubelet rotates logs, so old lines can be missing.`

const logsExamples = `  kubectl berth env logs shop --since 1h --tail 100
  kubectl berth env logs shop -c backend -f`

// logsFlags are the flags of `env logs`.
type logsFlags struct {
	component string
	since     time.Duration
	tail      int64 // below 0 is all
	follow    bool
	ended     bool
	poll      time.Duration
	open      logs.Open
}

func newLogs(o *command.Options) *cobra.Command {
	f := &logsFlags{poll: logs.Poll}
	cmd := anEnvironment(o, "logs", "Print the logs of an environment", aboutLogs, logsExamples,
		func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error {
			var err error
			if f.open, err = logs.FromAPI(o); err != nil {
				return err
			}
			return runLogs(ctx, o, c, env, f)
		})
	flags := cmd.Flags()
	flags.StringVarP(&f.component, "component", "c", "", "Print the logs of this component only.")
	flags.DurationVar(&f.since, "since", 0, "Print only lines that are newer than a duration such as 90s or 1h.")
	flags.Int64Var(&f.tail, "tail", -1, "The number of lines to print from the end of each log; -1 is all.")
	flags.BoolVarP(&f.follow, "follow", "f", false, "Continue with new lines.")
	flags.BoolVar(&f.ended, "ended", false,
		"Print also the last lines of containers that no longer exist, as far as they were kept. Requires get on the Secret ended-logs.")
	_ = cmd.RegisterFlagCompletionFunc("component",
		func(_ *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completeComponents(o, args[0], toComplete)
		})
	return cmd
}

// check refuses what makes no sense.
func (f *logsFlags) check(env *v1alpha1.Environment) error {
	switch {
	case f.since < 0:
		return fmt.Errorf("--since is %s: it must not be negative", f.since)
	case f.ended && f.follow:
		return errors.New("--ended and --follow exclude each other: containers that ended write no more lines")
	case f.tail < -1:
		return fmt.Errorf("--tail is %d: it must be a number of lines, or -1 for all", f.tail)
	case f.component != "" && !slices.Contains(render.ComponentNames(&env.Spec.Stack), f.component):
		return fmt.Errorf("--component is %q: it must be one of %s", f.component, strings.Join(render.ComponentNames(&env.Spec.Stack), ", "))
	}
	return nil
}

// printer prints the logs.
func (f *logsFlags) printer(o *command.Options) *logs.Printer {
	return &logs.Printer{Command: o, Open: f.open, Since: f.since, Tail: f.tail, Plain: f.component != "", Poll: f.poll}
}

func runLogs(ctx context.Context, o *command.Options, c client.Client, env *v1alpha1.Environment, f *logsFlags) error {
	if err := f.check(env); err != nil {
		return err
	}
	if f.follow {
		return followLogs(ctx, o, c, env, f)
	}
	pods, err := f.pods(ctx, c, env)
	if err != nil {
		return err
	}
	kept, err := f.kept(ctx, c, env, pods)
	if err != nil {
		return err
	}
	if len(pods) == 0 && len(kept) == 0 {
		fmt.Fprintf(o.ErrOut, "No pods found of environment %s/%s, which is %s.\n", env.Namespace, env.Name, render.PhaseOf(env))
		return nil
	}
	return f.printer(o).SoFar(ctx, containersOf(pods), kept)
}

// kept are the logs that were kept of containers that no longer exist, if they are wanted.
func (f *logsFlags) kept(ctx context.Context, c client.Client, env *v1alpha1.Environment, pods []corev1.Pod) ([]*podlogs.Stream, error) {
	if !f.ended || env.Status.Namespace == "" || f.tail == 0 {
		return nil, nil
	}
	secret := &corev1.Secret{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: env.Status.Namespace, Name: endedlogs.Secret}, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read the logs of containers that ended: %w", err)
	}
	var components, exist []string
	if f.component != "" {
		components = []string{f.component}
	}
	for i := range pods {
		id, _ := logs.Started(&pods[i], pods[i].Labels[v1alpha1.EnvironmentComponentLabel])
		exist = append(exist, id)
	}
	var since time.Time
	if f.since > 0 {
		since = time.Now().Add(-f.since)
	}
	return endedlogs.Streams(secret.Data, components, exist, int(max(f.tail, 0)), since), nil
}

// pods are those of an environment whose logs are wanted, in the order in which their components start.
func (f *logsFlags) pods(ctx context.Context, c client.Client, env *v1alpha1.Environment) ([]corev1.Pod, error) {
	if env.Status.Namespace == "" { // nothing was made yet
		return nil, nil
	}
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(env.Status.Namespace), client.MatchingLabels(render.Labels(env))); err != nil {
		return nil, fmt.Errorf("list the pods of %s in namespace %s: %w", environmentKind.Name(env.Name), env.Status.Namespace, err)
	}
	names := render.ComponentNames(&env.Spec.Stack)
	place := func(p corev1.Pod) int { return slices.Index(names, p.Labels[v1alpha1.EnvironmentComponentLabel]) }
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		component := p.Labels[v1alpha1.EnvironmentComponentLabel]
		return component == "" || f.component != "" && component != f.component
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Name, b.Name)) })
	return pods, nil
}

// containersOf are those of the components of pods.
func containersOf(pods []corev1.Pod) (found []podlogs.Container) {
	for i := range pods {
		component := pods[i].Labels[v1alpha1.EnvironmentComponentLabel]
		id, running := logs.Started(&pods[i], component)
		found = append(found, podlogs.Container{Pod: &pods[i], Name: component, Component: component, ID: id, Running: running})
	}
	return found
}

// followLogs prints lines until it is interrupted, or the environment is gone.
func followLogs(ctx context.Context, o *command.Options, c client.Client, env *v1alpha1.Environment, f *logsFlags) error {
	gone, err := f.printer(o).Follow(ctx, func(ctx context.Context) ([]podlogs.Container, error) {
		now := &v1alpha1.Environment{}
		err := c.Get(ctx, client.ObjectKeyFromObject(env), now)
		if apierrors.IsNotFound(err) || err == nil && now.UID != env.UID {
			return nil, io.EOF
		}
		if err != nil {
			return nil, err
		}
		pods, err := f.pods(ctx, c, now)
		return containersOf(pods), err
	})
	if gone {
		fmt.Fprintf(o.ErrOut, "Environment %s/%s was deleted.\n", env.Namespace, env.Name)
	}
	return err
}

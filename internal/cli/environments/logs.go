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
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/environments/endedlogs"
	"berth.dev/berth/internal/environments/podlogs"
	"berth.dev/berth/internal/environments/render"
)

const aboutLogs = `Prints the logs of the containers of an environment: of all components in the order of their time, each line with its component, or of one
component as it was written. --ended adds containers that no longer exist, if the controller keeps their last lines
(environments.endedLogLines). -f continues with new lines, also of pods that start later. The kubelet rotates logs, so old lines can be missing.`

const logsExamples = `  kubectl berth env logs shop --since 1h --tail 100
  kubectl berth env logs shop -c backend -f`

// envFollow is how often -f looks for new containers.
const envFollow = 2 * time.Second

// logsFlags are the flags of `env logs`.
type logsFlags struct {
	component string
	since     time.Duration
	tail      int64 // below 0 is all
	follow    bool
	ended     bool
	poll      time.Duration
	open      openLog
}

// openLog begins to read the log of a pod.
type openLog func(ctx context.Context, pod *corev1.Pod, options *corev1.PodLogOptions) (io.ReadCloser, error)

// openLogs reads logs from the API server.
func openLogs(o *command.Options) (openLog, error) {
	config, err := o.RestConfig()
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, pod *corev1.Pod, options *corev1.PodLogOptions) (io.ReadCloser, error) {
		return kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	}, nil
}

func newLogs(o *command.Options) *cobra.Command {
	f := &logsFlags{poll: envFollow}
	cmd := anEnvironment(o, "logs", "Print the logs of an environment", aboutLogs, logsExamples,
		func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error {
			var err error
			if f.open, err = openLogs(o); err != nil {
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

// options are those of a container's log.
func (f *logsFlags) options(component string) *corev1.PodLogOptions {
	options := &corev1.PodLogOptions{Container: component, Follow: f.follow, Timestamps: true}
	if f.since > 0 {
		// The API has whole seconds; a little too much is better than too little.
		options.SinceSeconds = new(int64((f.since + time.Second - 1) / time.Second))
	}
	if f.tail >= 0 {
		options.TailLines = new(f.tail)
	}
	return options
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
	return logsSoFar(ctx, o, pods, kept, f)
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
		id, _ := startedContainer(&pods[i], pods[i].Labels[v1alpha1.EnvironmentComponentLabel])
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

// logsSoFar prints the lines of all pods, and of other streams, in the order of their times.
func logsSoFar(ctx context.Context, o *command.Options, pods []corev1.Pod, streams []*podlogs.Stream, f *logsFlags) error {
	defer func() {
		for _, s := range streams {
			s.Close()
		}
	}()
	failed := false
	for i := range pods {
		component := pods[i].Labels[v1alpha1.EnvironmentComponentLabel]
		if id, _ := startedContainer(&pods[i], component); id == "" {
			o.Warn("%s has no log yet: pod %s/%s is %s", component, pods[i].Namespace, pods[i].Name,
				cmp.Or(pods[i].Status.Phase, corev1.PodPending))
			continue
		}
		body, err := f.open(ctx, &pods[i], f.options(component))
		if err != nil {
			failed = true
			o.Warn("cannot read the log of %s: pod %s/%s: %v", component, pods[i].Namespace, pods[i].Name, err)
			continue
		}
		streams = append(streams, &podlogs.Stream{Component: component, Reader: podlogs.NewReader(body, time.Time{})})
	}
	ended := func(s *podlogs.Stream, err error) {
		if !errors.Is(err, io.EOF) {
			failed = true
			o.Warn("the log of %s is incomplete: %v", s.Component, err)
		}
	}
	var waiting []*podlogs.Stream
	for _, s := range streams {
		if err := s.Advance(); err != nil {
			ended(s, err)
		} else {
			waiting = append(waiting, s)
		}
	}
	err := podlogs.Merge(waiting, func(s *podlogs.Stream) error { return printLine(o, f, s.Component, s.Line.Text) }, ended)
	switch {
	case err != nil:
		return err
	case failed:
		return command.ErrFailed
	}
	return ctx.Err()
}

// printLine prints a line of a component.
func printLine(o *command.Options, f *logsFlags, component, text string) error {
	if f.component == "" {
		text = "[" + component + "] " + text
	}
	_, err := fmt.Fprintln(o.Out, text)
	return err
}

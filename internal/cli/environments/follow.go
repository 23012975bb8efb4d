// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/environments/podlogs"
)

// follower prints what the containers of an environment write while they write it.
type follower struct {
	*logsFlags
	command *command.Options
	client  client.Client
	env     *v1alpha1.Environment
	// warned is the last warning about the log of a pod.
	warned map[types.UID]string
	// running are the containers that ran when they were looked for last, by their IDs: the component and the pod of each.
	running map[string]string
}

// followLogs prints lines until it is interrupted, or the environment is gone.
func followLogs(ctx context.Context, o *command.Options, c client.Client, env *v1alpha1.Environment, wanted *logsFlags) error {
	f := &follower{logsFlags: wanted, command: o, client: c, env: env, warned: map[types.UID]string{}}
	err := podlogs.Follow(ctx, f, f.poll)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the usual way to end it
	}
	if err == nil {
		fmt.Fprintf(o.ErrOut, "Environment %s/%s was deleted.\n", env.Namespace, env.Name)
	}
	return err
}

// Find returns the containers that an environment has now.
func (f *follower) Find(ctx context.Context) (found []podlogs.Container, err error) {
	now := &v1alpha1.Environment{}
	err = f.client.Get(ctx, client.ObjectKeyFromObject(f.env), now)
	if apierrors.IsNotFound(err) || err == nil && now.UID != f.env.UID {
		return nil, io.EOF
	}
	if err != nil {
		return nil, err
	}
	pods, err := f.pods(ctx, f.client, now)
	if err != nil {
		return nil, err
	}
	running := map[string]string{}
	for i := range pods {
		component := pods[i].Labels[v1alpha1.EnvironmentComponentLabel]
		id, runs := startedContainer(&pods[i], component)
		found = append(found, podlogs.Container{Pod: &pods[i], Name: component, Component: component, ID: id, Running: runs})
		if runs {
			running[id] = component + " in pod " + pods[i].Name
		}
	}
	f.noteEnded(running)
	return found, nil
}

// noteEnded reports the containers that ran before and do not run now: their logs have no more lines.
func (f *follower) noteEnded(running map[string]string) {
	for _, id := range slices.Sorted(maps.Keys(f.running)) {
		if running[id] == "" {
			f.command.Note("The container of %s has ended.", f.running[id])
		}
	}
	f.running = running
}

// FindFailed ends it when the environment is gone and its logs are read. An API server that does not answer now is no reason to end
// what is being read.
func (f *follower) FindFailed(err error, reading int) error {
	if !errors.Is(err, io.EOF) {
		f.command.Warn("%v", err)
		return nil
	}
	if reading > 0 {
		return nil
	}
	return err
}

// Take allows all logs to be read.
func (f *follower) Take(int) bool { return true }

// Open begins to read a log: all of one that came later, because it is new, and what came after the last line of one that goes on.
func (f *follower) Open(ctx context.Context, t *podlogs.Track) (*podlogs.Reader, error) {
	options := f.options(t.Component)
	if !t.First || t.Reads > 1 {
		options.TailLines, options.SinceSeconds = nil, nil
	}
	if !t.Position.At.IsZero() {
		options.SinceTime = &metav1.Time{Time: t.Position.At}
	}
	body, err := f.open(ctx, t.Pod, options)
	if err != nil {
		return nil, err
	}
	return t.Position.Resume(body), nil
}

// Send prints a line.
func (f *follower) Send(component string, l podlogs.Line) error {
	return printLine(f.command, f.logsFlags, component, l.Text)
}

// Ended warns once that a log cannot be read, and why. What was cut off goes on where it was the next time around.
func (f *follower) Ended(t *podlogs.Track, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || apierrors.IsBadRequest(err) { // one that waits to start has no log yet
		return nil
	}
	if text := err.Error(); text != f.warned[t.Pod.UID] {
		f.warned[t.Pod.UID] = text
		f.command.Warn("cannot read the log of %s: %v", t.Component, err)
	}
	return nil
}

// startedContainer is the container of a component that ran last in a pod, "" if none has run yet.
func startedContainer(pod *corev1.Pod, component string) (id string, running bool) {
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == component {
			return podlogs.Started(s)
		}
	}
	return "", false
}

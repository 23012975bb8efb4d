// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/environments/podlogs"
)

// follower prints what containers write while they write it. One goroutine, that of the command, looks for containers and
// prints; there is one more for each log.
type follower struct {
	*logsFlags
	tracks map[types.UID]*logTrack
	lines  chan followedLine
	ended  chan *logTrack
	// first says that nothing was looked for yet.
	first bool
}

// logTrack is how far the log of a pod was read.
type logTrack struct {
	component string
	// container is the one that was read last: a pod's is another one after each restart.
	container string
	// over says that it had ended before it was read, so that the end of its log is the end.
	reading, over, done bool
	// position is what was read of it.
	position podlogs.Position
	err      error
	// told is what was said of it last.
	told string
}

type followedLine struct{ component, text string }

// followLogs prints lines until it is interrupted, or the environment is gone.
func followLogs(ctx context.Context, o *command.Options, c client.Client, env *v1alpha1.Environment, wanted *logsFlags) error {
	var readers sync.WaitGroup
	defer readers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before the wait
	f := &follower{
		logsFlags: wanted, tracks: map[types.UID]*logTrack{}, lines: make(chan followedLine), ended: make(chan *logTrack),
		first: true,
	}
	tick := time.NewTicker(f.poll)
	defer tick.Stop()
	if _, err := f.look(ctx, c, env, &readers); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil // the usual way to end it
		case l := <-f.lines:
			if err := printLine(o, f.logsFlags, l.component, l.text); err != nil {
				return err
			}
		case t := <-f.ended:
			settle(o, t)
		case <-tick.C:
			if lookAgain(ctx, o, f, c, env, &readers) {
				return nil
			}
		}
	}
}

// lookAgain looks for new containers, and says whether there will be nothing more to print. That the API server cannot say now
// is no reason to end what is being read.
func lookAgain(ctx context.Context, o *command.Options, f *follower, c client.Client, env *v1alpha1.Environment,
	readers *sync.WaitGroup,
) bool {
	gone, err := f.look(ctx, c, env, readers)
	if err != nil && ctx.Err() == nil {
		o.Warn("%v", err)
	}
	if !gone || f.reading() > 0 {
		return false
	}
	fmt.Fprintf(o.ErrOut, "Environment %s/%s was deleted.\n", env.Namespace, env.Name)
	return true
}

// reading is how many logs are.
func (f *follower) reading() (n int) {
	for _, t := range f.tracks {
		if t.reading {
			n++
		}
	}
	return n
}

// settle notes how reading a log ended. What was cut off goes on where it was the next time around.
func settle(o *command.Options, t *logTrack) {
	t.reading = false
	t.done = t.over && t.err == nil
	if t.err == nil || errors.Is(t.err, context.Canceled) || apierrors.IsBadRequest(t.err) { // one that waits to start has no log yet
		return
	}
	if text := t.err.Error(); text != t.told {
		t.told = text
		o.Warn("cannot read the log of %s: %v", t.component, t.err)
	}
}

// look begins to read the logs that are not read yet. It says whether the environment is gone.
func (f *follower) look(ctx context.Context, c client.Client, env *v1alpha1.Environment, readers *sync.WaitGroup) (gone bool, err error) {
	now := &v1alpha1.Environment{}
	err = c.Get(ctx, client.ObjectKeyFromObject(env), now)
	if apierrors.IsNotFound(err) || err == nil && now.UID != env.UID {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	pods, err := f.pods(ctx, c, now)
	if err != nil {
		return false, err
	}
	for i := range pods {
		f.begin(ctx, &pods[i], readers)
	}
	f.first = false
	return false, nil
}

// begin begins to read the log of a pod, unless it is read or has been.
func (f *follower) begin(ctx context.Context, pod *corev1.Pod, readers *sync.WaitGroup) {
	component := pod.Labels[v1alpha1.EnvironmentComponentLabel]
	container, running := startedContainer(pod, component)
	t := f.tracks[pod.UID]
	if container == "" || t != nil && (t.reading || t.done && t.container == container) {
		return
	}
	options := f.options(component)
	if t != nil || !f.first { // all of one that came later is new, and so is what came after the last line of one that goes on
		options.TailLines, options.SinceSeconds = nil, nil
	}
	if t == nil {
		t = &logTrack{component: component}
		f.tracks[pod.UID] = t
	}
	if !t.position.At.IsZero() {
		options.SinceTime = &metav1.Time{Time: t.position.At}
	}
	t.container, t.over, t.reading, t.done = container, !running, true, false
	readers.Go(func() {
		t.err = f.read(ctx, t, pod, options)
		select {
		case f.ended <- t:
		case <-ctx.Done():
		}
	})
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

// read hands over the lines of a log that were not handed over before, until it ends.
func (f *follower) read(ctx context.Context, t *logTrack, pod *corev1.Pod, options *corev1.PodLogOptions) error {
	body, err := f.open(ctx, pod, options)
	if err != nil {
		return err
	}
	defer body.Close() //nolint:errcheck // it was read
	// The API server knows seconds: lines of the last one come again.
	lines := t.position.Resume(body)
	for {
		line, err := lines.Next()
		if err != nil {
			return endOfLog(err)
		}
		t.position.Note(line)
		select {
		case f.lines <- followedLine{t.component, line.Text}:
		case <-ctx.Done():
			return nil
		}
	}
}

// endOfLog takes the end of a log for no error.
func endOfLog(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

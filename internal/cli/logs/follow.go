// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/environments/podlogs"
)

// Find returns the containers that there are now. io.EOF means that there will be none any more.
type Find func(ctx context.Context) ([]podlogs.Container, error)

// place is that of a container in a pod.
type place struct {
	pod       types.UID
	container string
}

// follower prints what containers write while they write it.
type follower struct {
	*Printer
	find Find
	// warned is the last warning about the log of a container.
	warned map[place]string
	// notFound is the last warning about the containers, which could not be looked for.
	notFound string
	// running are the containers that ran when they were looked for last, by their IDs: the component and the pod of each.
	running map[string]string
}

// Follow prints lines until the context ends, which is no error, or until there will be no containers any more: gone is set then.
func (p *Printer) Follow(ctx context.Context, find Find) (gone bool, err error) {
	f := &follower{Printer: p, find: find, warned: map[place]string{}}
	err = podlogs.Follow(ctx, f, p.Poll)
	if ctx.Err() != nil {
		return false, nil //nolint:nilerr // the usual way to end it
	}
	return err == nil, err
}

// Find returns the containers that there are now.
func (f *follower) Find(ctx context.Context) ([]podlogs.Container, error) {
	found, err := f.find(ctx)
	if err != nil {
		return nil, err
	}
	running := map[string]string{}
	for i := range found {
		if c := &found[i]; c.Running {
			running[c.ID] = c.Component + " in pod " + c.Pod.Name
		}
	}
	f.noteEnded(running)
	return found, nil
}

// noteEnded reports the containers that ran before and do not run now: their logs have no more lines.
func (f *follower) noteEnded(running map[string]string) {
	for _, id := range slices.Sorted(maps.Keys(f.running)) {
		if running[id] == "" {
			f.Command.Note("The container of %s has ended.", f.running[id])
		}
	}
	f.running = running
}

// FindFailed ends it when there will be no containers any more and their logs are read. An API server that does not answer now is no
// reason to end what is being read.
func (f *follower) FindFailed(err error, reading int) error {
	if apierrors.IsForbidden(err) {
		return err
	}
	if !errors.Is(err, io.EOF) {
		if text := err.Error(); f.notFound != text { // once, and not each time
			f.notFound = text
			f.Command.Warn("%s", text)
		}
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
	options := f.Options(t.Name, true)
	if !t.First || t.Reads > 1 {
		options.TailLines, options.SinceSeconds = nil, nil
	}
	if !t.Position.At.IsZero() {
		options.SinceTime = &metav1.Time{Time: t.Position.At}
	}
	body, err := f.Printer.Open(ctx, t.Pod, options)
	if err != nil {
		return nil, err
	}
	return t.Position.Resume(body), nil
}

// Send prints a line.
func (f *follower) Send(component string, l podlogs.Line) error { return f.print(component, l.Text) }

// Ended warns once that a log cannot be read, and why. What was cut off goes on where it was the next time around.
func (f *follower) Ended(t *podlogs.Track, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || apierrors.IsBadRequest(err) { // one that waits to start has no log yet
		return nil
	}
	if text, at := err.Error(), (place{t.Pod.UID, t.Name}); text != f.warned[at] {
		f.warned[at] = text
		f.Command.Warn("cannot read the log of %s: %v", t.Component, err)
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package podlogs

import (
	"context"
	"errors"
	"io"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Container is a container and its place in a pod: after each restart another one is in it.
type Container struct {
	Pod *corev1.Pod
	// Name is that of the place, Component what it belongs to.
	Name, Component string
	// ID is the container that ran last, "" if none has, and Running whether it runs: see Started.
	ID      string
	Running bool
}

// Track is how far the logs of one place were read.
type Track struct {
	// Container is the one that is read, as it was when that began.
	Container
	// First is set for the container that was there when following began, and Reads how often its place was read, with
	// this time. Restarted is set where another container was read before.
	First, Restarted bool
	Reads            int
	// Position is what was read of it.
	Position Position

	// done is set once the log of a container that had ended before was read to its end.
	reading, done bool
	err           error
}

// Source is where the logs of a Follow come from, and where their lines go. All is called by one goroutine, but for Open.
type Source interface {
	// Find returns the containers that there are. io.EOF means that there will be none any more.
	Find(ctx context.Context) ([]Container, error)
	// FindFailed decides whether an error of Find ends a Follow, while so many logs are read: it returns the error then.
	FindFailed(err error, reading int) error
	// Take takes what reading one more log needs, while so many are read. False means that it cannot be read now.
	Take(reading int) bool
	// Open begins to read a log from the position of its track on. It is nil if there is none yet.
	Open(ctx context.Context, t *Track) (*Reader, error)
	// Send takes a line. All logs wait until it returns.
	Send(component string, l Line) error
	// Ended takes how reading a log has ended, io.EOF at its end. What was cut off is read again. An error ends the Follow.
	Ended(t *Track, err error) error
}

// follower hands over what containers write while they write it. All of it is one goroutine's, but for what reads a log: there
// is one for each, and it has its track to itself until it ends.
type follower struct {
	source  Source
	tracks  map[place]*Track
	reading int
	readers sync.WaitGroup
	lines   chan followedLine
	ended   chan *Track
}

type place struct {
	pod       types.UID
	container string
}

type followedLine struct {
	component string
	Line
}

// Follow sends the lines of a source until an error ends it, or the context, or what is followed is gone, which is no error. It
// looks for new containers once in an interval.
func Follow(ctx context.Context, s Source, interval time.Duration) error {
	err := follow(ctx, s, interval)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func follow(ctx context.Context, s Source, interval time.Duration) error {
	f := &follower{source: s, tracks: map[place]*Track{}, lines: make(chan followedLine), ended: make(chan *Track)}
	defer f.readers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before the wait
	if err := f.look(ctx, true); err != nil {
		return err
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case l := <-f.lines:
			err = s.Send(l.component, l.Line)
		case t := <-f.ended:
			err = f.finish(t)
		case <-tick.C:
			// That it cannot be found out now what there is need not end what is being read.
			if err = f.look(ctx, false); err != nil && ctx.Err() == nil {
				err = s.FindFailed(err, f.reading)
			}
		}
		if err != nil {
			return err
		}
	}
}

// look begins to read the logs that are not read yet. First is the first time.
func (f *follower) look(ctx context.Context, first bool) error {
	all, err := f.source.Find(ctx)
	if err != nil {
		return err
	}
	there := map[place]bool{}
	for _, c := range all {
		at := place{c.Pod.UID, c.Name}
		there[at] = true
		if c.ID == "" {
			continue
		}
		t := f.tracks[at]
		if t == nil {
			t = &Track{First: first}
			f.tracks[at] = t
		}
		if !t.reading && (!t.done || t.ID != c.ID) && f.source.Take(f.reading) {
			f.begin(ctx, t, c)
		}
	}
	maps.DeleteFunc(f.tracks, func(at place, t *Track) bool { return !there[at] && !t.reading })
	return nil
}

// begin reads the log of the container that now is in its place, in a goroutine of its own.
func (f *follower) begin(ctx context.Context, t *Track, c Container) {
	t.Restarted = t.ID != "" && t.ID != c.ID
	t.First = t.First && !t.Restarted
	t.Container, t.reading, t.done = c, true, false
	t.Reads++
	f.reading++
	f.readers.Go(func() {
		t.err = f.read(ctx, t)
		select {
		case f.ended <- t:
		case <-ctx.Done():
		}
	})
}

// read hands over the lines of a log that were not handed over before, until it ends.
func (f *follower) read(ctx context.Context, t *Track) error {
	lines, err := f.source.Open(ctx, t)
	if err != nil || lines == nil {
		return err
	}
	defer lines.Close()
	for {
		l, err := lines.Next()
		if err != nil {
			return err
		}
		t.Position.Note(l)
		select {
		case f.lines <- followedLine{t.Component, l}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// finish notes how reading a log ended.
func (f *follower) finish(t *Track) error {
	t.reading = false
	f.reading--
	t.done = !t.Running && errors.Is(t.err, io.EOF)
	return f.source.Ended(t, t.err)
}

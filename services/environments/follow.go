// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"errors"
	"io"
	"maps"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/types"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/internal/environments/podlogs"
	"berth.dev/berth/services/server"
)

const (
	// waitingLines is how many lines wait for a caller who is slower than the containers. When they do, no more are read:
	// the kubelet keeps the rest.
	waitingLines = 16
	// lookTimeout bounds looking for new containers, in which nothing is sent.
	lookTimeout = 5 * time.Second
	// looks is how often in a row that may fail.
	looks = 5
)

// follower sends what containers write while they write it. All of it is one goroutine's, that of the call, but for what
// reads a log: there is one for each container, and it has the container's track to itself until it ends.
type follower struct {
	core     *core
	env      *environment
	wanted   *wantedLogs
	tracks   map[trackKey]*track
	reading  int
	lines    chan *schedulerv1.GetEnvironmentLogsResponse
	ended    chan *track
	failures int
	// caller is whom the containers count for that are read.
	caller string
}

type trackKey struct {
	pod       types.UID
	container string
}

// track is how far the log of a container was read.
type track struct {
	reading bool
	// of is the id of the container that was read last: a pod's container is another one after each restart.
	of string
	// over says that it had ended before it was read, so that the end of its log is the end.
	over bool
	// done says that its log was read to that end.
	done bool
	// tail is how many lines were requested from the end.
	tail int64
	// position is what was read of it.
	position podlogs.Position
	err      error
}

// follow sends lines until the caller has enough, or the environment is gone.
func (c *core) follow(ctx context.Context, e *environment, w *wantedLogs, send sender) error {
	defer c.looks.join(e.UID)()
	var readers sync.WaitGroup
	var f *follower
	defer func() {
		readers.Wait()
		c.logPool.Free(f.caller, f.reading)
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before the wait
	f = &follower{
		core: c, env: e, wanted: w, caller: c.caller(ctx), tracks: map[trackKey]*track{},
		lines: make(chan *schedulerv1.GetEnvironmentLogsResponse, waitingLines), ended: make(chan *track),
	}
	if err := f.look(ctx, &readers, w.tail); err != nil {
		return ignoreEnd(err)
	}
	tick := time.NewTicker(c.poll)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case l := <-f.lines:
			err = send(l)
		case t := <-f.ended:
			err = f.settle(t)
		case <-tick.C:
			// What is new has written nothing that is not wanted.
			err = f.again(ctx, &readers)
		}
		if err != nil {
			return ignoreEnd(err)
		}
	}
}

// ignoreEnd takes the end of what is followed for no error.
func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// again looks for new containers. That the API server cannot say now is no reason to end what is being read.
func (f *follower) again(ctx context.Context, readers *sync.WaitGroup) error {
	err := f.look(ctx, readers, 0)
	switch {
	case err == nil:
		f.failures = 0
		return nil
	case errors.Is(err, io.EOF), ctx.Err() != nil:
		return err
	}
	if f.failures++; f.failures < looks {
		return nil
	}
	return err
}

// look begins to read containers that are not read yet. It returns io.EOF once the environment is gone.
func (f *follower) look(ctx context.Context, readers *sync.WaitGroup, tail int64) error {
	all, err := f.there(ctx)
	if err != nil {
		return err
	}
	there := map[trackKey]bool{}
	for _, i := range f.wanted.of(all) {
		key := trackKey{i.pod.UID, i.container.Name}
		there[key] = true
		t := f.tracks[key]
		if t == nil {
			t = &track{tail: tail}
			f.tracks[key] = t
		}
		if !t.reading && (!t.done || t.of != i.started()) && f.reading < maxStreams && f.core.logPool.Take(f.caller, 1) == nil {
			f.begin(ctx, readers, t, &i)
		}
	}
	maps.DeleteFunc(f.tracks, func(key trackKey, t *track) bool { return !there[key] && !t.reading })
	return nil
}

// there are the containers that an environment has now.
func (f *follower) there(ctx context.Context) ([]instance, error) {
	return f.core.looks.there(ctx, f.env.UID, func(ctx context.Context) ([]instance, error) {
		e, err := f.core.find(ctx, f.env.Namespace, f.env.Name)
		if err != nil {
			if server.AsError(err).Code == codes.NotFound {
				err = io.EOF
			}
			return nil, err
		}
		if e.UID != f.env.UID {
			return nil, io.EOF // another one of the same name
		}
		return f.core.store.instances(ctx, e)
	})
}

// begin reads a container in a goroutine of its own.
func (f *follower) begin(ctx context.Context, readers *sync.WaitGroup, t *track, i *instance) {
	t.begin(i)
	f.reading++
	readers.Go(func() {
		t.err = f.read(ctx, t, i)
		select {
		case f.ended <- t:
		case <-ctx.Done():
		}
	})
}

// begin makes a track that of the container that now is in its place.
func (t *track) begin(i *instance) {
	if id := i.started(); t.of != id {
		if t.of != "" {
			t.tail = 0 // all of the one that came after
		}
		t.of, t.position = id, podlogs.Position{}
	}
	t.reading, t.done, t.err = true, false, nil
	t.over = i.status.State.Running == nil
}

// settle notes how reading a log ended. What was cut off goes on where it was the next time around.
func (f *follower) settle(t *track) error {
	t.reading = false
	f.reading--
	f.core.logPool.Free(f.caller, 1)
	t.done = t.over && errors.Is(t.err, io.EOF)
	if e := server.AsError(t.err); e != nil && e.Code == codes.PermissionDenied {
		return t.err
	}
	return nil
}

// read hands over the lines of a container that were not handed over before, until its log ends.
func (f *follower) read(ctx context.Context, t *track, i *instance) error {
	from, tail := f.wanted.since, t.tail
	if !t.position.At.IsZero() {
		from, tail = t.position.At, 0
	}
	s, err := f.core.store.logsOf(ctx, i, f.wanted.options(from, tail), from)
	if err != nil || s == nil {
		return err
	}
	defer s.close()
	if !t.position.At.IsZero() {
		s.lines = t.position.Resume(s.body)
	}
	for {
		if err := s.next(); err != nil {
			return err
		}
		t.position.Note(s.line)
		select {
		case f.lines <- s.toWire():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

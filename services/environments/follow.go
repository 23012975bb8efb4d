// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"

	"berth.dev/berth/internal/environments/podlogs"
	"berth.dev/berth/services/server"
)

const (
	// lookTimeout bounds looking for new containers, in which nothing is sent.
	lookTimeout = 5 * time.Second
	// maxFailures is how often in a row a look for containers may fail.
	maxFailures = 5
)

// follower is the source of what a call follows. No line waits for a caller who is slower than the containers: the kubelet keeps
// the rest.
type follower struct {
	service *service
	env     *environment
	wanted  *wantedLogs
	send    sender
	// caller is whom the containers count for that are read, and taken how many do.
	caller   string
	taken    int
	failures int
}

// follow sends lines until the caller has enough, or the environment is gone.
func (c *service) follow(ctx context.Context, e *environment, w *wantedLogs, send sender) error {
	defer c.lists.join(e.UID)()
	f := &follower{service: c, env: e, wanted: w, send: send, caller: c.caller(ctx)}
	defer func() { c.logPool.Free(f.caller, f.taken) }()
	return podlogs.Follow(ctx, f, c.poll)
}

// Find returns the containers that an environment has now.
func (f *follower) Find(ctx context.Context) ([]podlogs.Container, error) {
	all, err := f.service.lists.there(ctx, f.env.UID, func(ctx context.Context) ([]instance, error) {
		e, err := f.service.find(ctx, f.env.Namespace, f.env.Name)
		if err != nil {
			if server.AsError(err).Code == codes.NotFound {
				err = io.EOF
			}
			return nil, err
		}
		if e.UID != f.env.UID {
			return nil, io.EOF // another one of the same name
		}
		return f.service.store.instances(ctx, e)
	})
	if err != nil {
		return nil, err
	}
	f.failures = 0
	return f.wanted.of(all), nil
}

// FindFailed ends it when the environment is gone. An API server that does not answer now is no reason to end what is being read.
func (f *follower) FindFailed(err error, _ int) error {
	if f.failures++; errors.Is(err, io.EOF) || f.failures >= maxFailures {
		return err
	}
	return nil
}

// Take counts one more container for the caller.
func (f *follower) Take(reading int) bool {
	if reading >= maxStreams || f.service.logPool.Take(f.caller, 1) != nil {
		return false
	}
	f.taken++
	return true
}

// Open reads all of a container that came after another, else from where it was.
func (f *follower) Open(ctx context.Context, t *podlogs.Track) (*podlogs.Reader, error) {
	if t.Restarted {
		t.Position = podlogs.Position{}
	}
	if !t.Position.At.IsZero() {
		return f.service.store.logsOf(ctx, &t.Container, f.wanted.options(t.Position.At, 0), &t.Position)
	}
	tail := int64(0) // what is new has written nothing that is not wanted
	if t.First {
		tail = f.wanted.tail
	}
	since := f.wanted.since
	return f.service.store.logsOf(ctx, &t.Container, f.wanted.options(since, tail), &podlogs.Position{At: since})
}

// Send sends a line to the caller.
func (f *follower) Send(component string, l podlogs.Line) error {
	return f.send(lineToWire(component, &l))
}

// Ended ends it when the caller may not read a log. What was cut off goes on where it was the next time around.
func (f *follower) Ended(_ *podlogs.Track, err error) error {
	f.taken--
	f.service.logPool.Free(f.caller, 1)
	if e := server.AsError(err); e != nil && e.Code == codes.PermissionDenied {
		return err
	}
	return nil
}

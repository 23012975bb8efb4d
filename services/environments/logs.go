// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/internal/environments/podlogs"
	internal "berth.dev/berth/internal/environments/render"
	"berth.dev/berth/services/server"
)

const (
	// maxTail is how many lines of a container can be requested from the end; who wants all requests 0.
	maxTail = 10000
	// maxStreams is how many containers' logs are read at a time.
	maxStreams = 256
	// opening is how many of them are begun at a time.
	opening = 8
	// callerLogs and allLogs are how many containers' logs are read at a time for one caller and for all.
	callerLogs, allLogs = 512, 1024
	// recheck is for how long a caller may read logs without being checked again, and maxUnchecked how many times that
	// while the API server cannot be queried.
	recheck, maxUnchecked = time.Minute, 5
)

// wantedLogs is what a call requests.
type wantedLogs struct {
	component string // "" is all
	since     time.Time
	tail      int64 // 0 is all
	follow    bool
}

func logsFromWire(req *schedulerv1.GetEnvironmentLogsRequest) (*wantedLogs, error) {
	w := &wantedLogs{component: req.GetContainerName(), tail: int64(req.GetTailLines()), follow: req.GetFollow()}
	if w.tail < 0 {
		return nil, server.InvalidField("tail_lines", fmt.Sprintf("is %d, and must not be negative", w.tail))
	}
	w.tail = min(w.tail, maxTail)
	if req.GetSince() != nil {
		if err := req.GetSince().CheckValid(); err != nil {
			return nil, server.InvalidField("since", "is no time from the year 1 to the year 9999")
		}
		w.since = req.GetSince().AsTime()
	}
	return w, nil
}

// checkComponent refuses a component that an environment has not got.
func (w *wantedLogs) checkComponent(e *environment) error {
	if w.component == "" {
		return nil
	}
	for _, c := range internal.Components(&e.Spec.Stack) {
		if c.Name == w.component {
			return nil
		}
	}
	return server.InvalidField("container_name", fmt.Sprintf("is %q, and environment %q has no such component", w.component, e.Name))
}

// sender sends one message at a time.
type sender = func(*schedulerv1.GetEnvironmentLogsResponse) error

// logs sends what an environment's containers have written, and, if wanted, what they write until the caller has enough.
func (c *core) logs(ctx context.Context, namespace string, req *schedulerv1.GetEnvironmentLogsRequest, send sender) error {
	w, err := logsFromWire(req)
	if err != nil {
		return err
	}
	e, err := c.read(ctx, namespace, req.GetId(), "get", "log")
	if err != nil {
		return err
	}
	if err := w.checkComponent(e); err != nil {
		return err
	}
	send = c.whileAllowed(ctx, e, send)
	if w.follow {
		return c.follow(ctx, e, w, send)
	}
	return c.logsSoFar(ctx, e, w, send)
}

// whileAllowed sends as long as the caller may read the logs, which is checked again from time to time. An API server that
// does not answer changes nothing for a while.
func (c *core) whileAllowed(ctx context.Context, e *environment, send sender) sender {
	checked, allowed := c.now(), c.now()
	return func(m *schedulerv1.GetEnvironmentLogsResponse) error {
		now := c.now()
		if now.Sub(checked) < recheck {
			return send(m)
		}
		within, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		err := c.authorize(within, e.Namespace, e.Name, "get", "log")
		if err != nil {
			code := server.AsError(err).Code
			if code == codes.PermissionDenied || code == codes.Unauthenticated || now.Sub(allowed) >= maxUnchecked*recheck {
				return err
			}
		}
		if checked = now; err == nil {
			allowed = now
		}
		return send(m)
	}
}

// of are the containers that a call wants the logs of and that have any.
func (w *wantedLogs) of(all []instance) []instance {
	var out []instance
	for _, i := range all {
		if (w.component == "" || i.component == w.component) && i.started() != "" {
			out = append(out, i)
		}
	}
	return out
}

// started is the id of the container that ran last in the place of this one, "" if none has run yet.
func (i *instance) started() string {
	if i.status == nil {
		return ""
	}
	id, _ := podlogs.Started(i.status)
	return id
}

// stream is the log of a container while it is read.
type stream struct {
	component, name string
	body            io.ReadCloser
	lines           *podlogs.Reader
	// line is the one that was read last.
	line podlogs.Line
}

func newStream(i *instance, body io.ReadCloser, from time.Time) *stream {
	return &stream{component: i.component, name: i.component + "/" + i.pod.Name, body: body, lines: podlogs.NewReader(body, from)}
}

// close ends a stream. Nil has ended.
func (s *stream) close() {
	if s != nil {
		_ = s.body.Close() // it was only read
	}
}

// next reads a line; io.EOF says that there is none.
func (s *stream) next() (err error) {
	s.line, err = s.lines.Next()
	return err
}

// logsSoFar sends the lines of all containers in the order of their times. Each is read only as far as the order needs, so
// that one line of each is all that is held.
func (c *core) logsSoFar(ctx context.Context, e *environment, w *wantedLogs, send sender) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all, err := c.store.instances(ctx, e)
	if err != nil {
		return err
	}
	wanted := w.of(all)
	if len(wanted) > maxStreams {
		return server.Refuse(codes.ResourceExhausted, fmt.Sprintf(
			"environment %q has %d containers, and the logs of %d can be read at a time: name one in container_name",
			e.Name, len(wanted), maxStreams))
	}
	caller := c.caller(ctx)
	if err := c.logPool.Take(caller, len(wanted)); err != nil {
		return err
	}
	defer c.logPool.Free(caller, len(wanted))
	streams, failed := c.store.open(ctx, wanted, w)
	defer func() {
		for _, s := range streams {
			s.close()
		}
	}()
	order := queue(slices.Clone(streams))
	heap.Init(&order)
	for len(order) > 0 {
		s := order[0]
		if err := send(s.toWire()); err != nil {
			return err
		}
		if err := s.next(); err != nil {
			failed = append(failed, err)
			heap.Pop(&order)
		} else {
			heap.Fix(&order, 0)
		}
	}
	return firstOf(failed)
}

// open begins to read the logs of containers, and returns those that have a line, with that line read.
func (s *store) open(ctx context.Context, wanted []instance, w *wantedLogs) (streams []*stream, failed []error) {
	var mu sync.Mutex // guards both
	var opens errgroup.Group
	opens.SetLimit(opening)
	for n := range wanted {
		opens.Go(func() error {
			log, err := s.logsOf(ctx, &wanted[n], w.options(w.since, w.tail), w.since)
			if log != nil {
				if err = log.next(); err != nil {
					log.close()
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, err)
			} else if log != nil {
				streams = append(streams, log)
			}
			return nil
		})
	}
	_ = opens.Wait() // each has an error of its own
	return streams, failed
}

// firstOf is the first error that is not an end. The other containers' lines were sent before it.
func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// queue orders streams by the times of their next lines, and in the order of components where those are equal.
type queue []*stream

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if a, b := q[i].line.At, q[j].line.At; !a.Equal(b) {
		return a.Before(b)
	}
	return q[i].name < q[j].name
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push is what heap.Interface demands.
func (q *queue) Push(s any) { *q = append(*q, s.(*stream)) }

// Pop is what heap.Interface demands.
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func (w *wantedLogs) options(since time.Time, tail int64) *corev1.PodLogOptions {
	o := &corev1.PodLogOptions{Follow: w.follow, Timestamps: true}
	if !since.IsZero() {
		// The API server knows seconds; what is too early within the first is left out here.
		o.SinceTime = &metav1.Time{Time: since.Truncate(time.Second)}
	}
	if tail > 0 {
		o.TailLines = &tail
	}
	return o
}

// logsOf begins to read the log of a container from a time on. A container that has none, or is gone by now, has no stream and no error.
func (s *store) logsOf(ctx context.Context, i *instance, o *corev1.PodLogOptions, from time.Time) (*stream, error) {
	o.Container = i.container.Name
	body, err := s.core.Pods(i.pod.Namespace).GetLogs(i.pod.Name, o).Stream(ctx)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsBadRequest(err):
		return nil, nil
	case err != nil:
		return nil, cannotRead(ctx, i, err)
	}
	return newStream(i, body, from), nil
}

// cannotRead says whose log cannot be read. What the caller may not do, or no one can, is said as it is; all else may work
// later.
func cannotRead(ctx context.Context, i *instance, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e := server.AsError(err)
	code := codes.Unavailable
	if e.Code == codes.PermissionDenied || e.Code == codes.ResourceExhausted {
		code = e.Code
	}
	return server.Refuse(code, fmt.Sprintf("the log of %s cannot be read now: pod %s: %s", i.component, i.pod.Name, e.Message))
}

func (s *stream) toWire() *schedulerv1.GetEnvironmentLogsResponse {
	return toLine(s.component, &s.line)
}

func toLine(component string, l *podlogs.Line) *schedulerv1.GetEnvironmentLogsResponse {
	out := &schedulerv1.GetEnvironmentLogsResponse{ContainerName: component, Message: l.Text, Level: LevelOf(l.Text)}
	if !l.At.IsZero() {
		out.Timestamp = timestamppb.New(l.At)
	}
	return out
}

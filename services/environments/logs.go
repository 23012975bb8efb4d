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

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/internal/environments/endedlogs"
	"berth.dev/berth/internal/environments/podlogs"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/services/server"
)

const (
	// maxTail is how many lines of a container can be requested from the end; 0 requests all.
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
	// name is that of a component or of a container, "" for all. components are those that have the name, nil for all.
	name       string
	components []string
	since      time.Time
	tail       int64 // 0 is all
	follow     bool
}

func logsFromWire(req *schedulerv1.GetEnvironmentLogsRequest) (*wantedLogs, error) {
	w := &wantedLogs{name: req.GetContainerName(), tail: int64(req.GetTailLines()), follow: req.GetFollow()}
	if w.tail < 0 {
		return nil, server.InvalidField("tail_lines", fmt.Sprintf("is %d, and must not be negative", w.tail))
	}
	w.tail = min(w.tail, maxTail)
	if req.GetSince() != nil {
		if err := req.GetSince().CheckValid(); err != nil {
			return nil, server.InvalidField("since", "must be a time from the year 1 to the year 9999")
		}
		w.since = req.GetSince().AsTime()
	}
	return w, nil
}

// choose finds the components of an environment whose logs a call requests: the one of that name, else those whose containers
// the client has given the name.
func (w *wantedLogs) choose(e *environment) error {
	if w.name == "" {
		return nil
	}
	var names []string
	for _, c := range stack.Components(&e.Spec.Stack) {
		if c.Name == w.name {
			w.components = []string{c.Name}
			return nil
		}
		if c.Container.Name == w.name {
			w.components = append(w.components, c.Name)
		}
		names = append(names, c.Name)
		if own := c.Container.Name; own != "" && own != c.Name {
			names = append(names, own)
		}
	}
	if len(w.components) > 0 {
		return nil
	}
	return server.InvalidField("container_name", fmt.Sprintf("is %q, and must be one of the names of environment %q: %s",
		w.name, e.Name, strings.Join(names, ", ")))
}

// sender sends one message at a time.
type sender = func(*schedulerv1.GetEnvironmentLogsResponse) error

// logs sends what an environment's containers have written, and, if wanted, what they write until the caller has enough.
func (c *service) logs(ctx context.Context, namespace string, req *schedulerv1.GetEnvironmentLogsRequest, send sender) error {
	w, err := logsFromWire(req)
	if err != nil {
		return err
	}
	e, err := c.read(ctx, namespace, req.GetId(), "get", "log")
	if err != nil {
		return err
	}
	if err := w.choose(e); err != nil {
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
func (c *service) whileAllowed(ctx context.Context, e *environment, send sender) sender {
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

// of returns the containers whose logs a call requests and that have any.
func (w *wantedLogs) of(all []instance) []podlogs.Container {
	var out []podlogs.Container
	for _, i := range all {
		if w.components != nil && !slices.Contains(w.components, i.component) || i.status == nil {
			continue
		}
		if id, running := podlogs.Started(i.status); id != "" {
			out = append(out, podlogs.Container{Pod: i.pod, Name: i.container.Name, Component: i.component, ID: id, Running: running})
		}
	}
	return out
}

// logsSoFar sends the lines of all containers in the order of their times.
func (c *service) logsSoFar(ctx context.Context, e *environment, w *wantedLogs, send sender) error {
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
	name := func(c *podlogs.Container) string { return c.Component + "/" + c.Pod.Name }
	slices.SortFunc(wanted, func(a, b podlogs.Container) int { return cmp.Compare(name(&a), name(&b)) })
	streams, failed := c.store.open(ctx, wanted, w)
	kept, err := c.store.ended(ctx, e, w, wanted)
	if err != nil {
		failed = append(failed, err)
	}
	streams = append(streams, kept...)
	defer func() {
		for _, s := range streams {
			s.Close()
		}
	}()
	err = podlogs.Merge(streams,
		func(s *podlogs.Stream) error { return send(lineToWire(s.Component, &s.Line)) },
		func(_ *podlogs.Stream, err error) { failed = append(failed, err) })
	if err != nil {
		return err
	}
	return firstOf(failed)
}

// ended returns the last lines of containers that no longer exist, as far as they were kept, each stream with its first line read.
func (s *store) ended(ctx context.Context, e *environment, w *wantedLogs, exist []podlogs.Container) ([]*podlogs.Stream, error) {
	if e.Status.Namespace == "" {
		return nil, nil
	}
	secret, err := s.coreV1.Secrets(e.Status.Namespace).Get(ctx, endedlogs.Secret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !render.MadeFor(secret, e) {
		return nil, nil
	}
	var ids []string
	for i := range exist {
		ids = append(ids, exist[i].ID)
	}
	// One without a line since then is left out.
	return slices.DeleteFunc(endedlogs.Streams(secret.Data, w.components, ids, int(w.tail), w.since), func(s *podlogs.Stream) bool {
		return s.Advance() != nil
	}), nil
}

// open begins to read the logs of containers, and returns those that have a line, with that line read.
func (s *store) open(ctx context.Context, wanted []podlogs.Container, w *wantedLogs) (streams []*podlogs.Stream, failed []error) {
	streams, failed = make([]*podlogs.Stream, len(wanted)), make([]error, len(wanted))
	var opens errgroup.Group
	opens.SetLimit(opening)
	for n := range wanted {
		opens.Go(func() error {
			lines, err := s.logsOf(ctx, &wanted[n], w.options(w.since, w.tail), &podlogs.Position{At: w.since})
			if failed[n] = err; lines == nil {
				return nil
			}
			log := &podlogs.Stream{Reader: lines, Component: wanted[n].Component}
			if failed[n] = log.Advance(); failed[n] == nil {
				streams[n] = log
			} else {
				log.Close()
			}
			return nil
		})
	}
	_ = opens.Wait() // each has an error of its own
	return slices.DeleteFunc(streams, func(s *podlogs.Stream) bool { return s == nil }), failed
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

func (w *wantedLogs) options(since time.Time, tail int64) *corev1.PodLogOptions {
	o := &corev1.PodLogOptions{Follow: w.follow, Timestamps: true}
	if !since.IsZero() {
		// The API server has a resolution of seconds; what is too early within the first is left out here.
		o.SinceTime = &metav1.Time{Time: since.Truncate(time.Second)}
	}
	if tail > 0 {
		o.TailLines = &tail
	}
	return o
}

// logsOf begins to read the log of a container from a position on. A container that has none, or is gone by now, has no lines
// and no error.
func (s *store) logsOf(
	ctx context.Context, c *podlogs.Container, o *corev1.PodLogOptions, from *podlogs.Position,
) (*podlogs.Reader, error) {
	o.Container = c.Name
	body, err := s.coreV1.Pods(c.Pod.Namespace).GetLogs(c.Pod.Name, o).Stream(ctx)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsBadRequest(err):
		return nil, nil
	case err != nil:
		return nil, cannotRead(ctx, c, err)
	}
	return from.Resume(body), nil
}

// cannotRead names the log that cannot be read. A missing right and an exhausted resource keep their codes; all
// else is Unavailable, since it may work later.
func cannotRead(ctx context.Context, c *podlogs.Container, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e := server.AsError(err)
	code := codes.Unavailable
	if e.Code == codes.PermissionDenied || e.Code == codes.ResourceExhausted {
		code = e.Code
	}
	return server.Refuse(code, fmt.Sprintf("the log of %s cannot be read now: pod %s: %s", c.Component, c.Pod.Name, e.Message))
}

func lineToWire(component string, l *podlogs.Line) *schedulerv1.GetEnvironmentLogsResponse {
	out := &schedulerv1.GetEnvironmentLogsResponse{ContainerName: component, Message: l.Text, Level: LevelOf(l.Text)}
	if !l.At.IsZero() {
		out.Timestamp = timestamppb.New(l.At)
	}
	return out
}

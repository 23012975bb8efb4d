// SPDX-License-Identifier: Apache-2.0

// Package logs prints what containers write: the lines that they have, in the order of their times, and those that come while they are
// followed.
package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/environments/podlogs"
)

// Poll is how often new containers are looked for while logs are followed.
const Poll = 2 * time.Second

// Open begins to read the log of a container of a pod.
type Open func(ctx context.Context, pod *corev1.Pod, options *corev1.PodLogOptions) (io.ReadCloser, error)

// FromAPI reads logs from the API server.
func FromAPI(o *command.Options) (Open, error) {
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

// Printer prints the logs of containers.
type Printer struct {
	Command *command.Options
	Open    Open
	// Since leaves out older lines; 0 leaves out none. Tail is the number of lines from the end of each log; below 0 is all.
	Since time.Duration
	Tail  int64
	// Plain prints lines without the component that wrote them.
	Plain bool
	// Poll is how often Follow looks for new containers.
	Poll time.Duration
}

// Options are those of the log of a container.
func (p *Printer) Options(container string, follow bool) *corev1.PodLogOptions {
	options := &corev1.PodLogOptions{Container: container, Follow: follow, Timestamps: true}
	if p.Since > 0 {
		// The API has whole seconds; a little too much is better than too little.
		options.SinceSeconds = new(int64((p.Since + time.Second - 1) / time.Second))
	}
	if p.Tail >= 0 {
		options.TailLines = new(p.Tail)
	}
	return options
}

// SoFar prints the lines that containers, and other streams, have now, in the order of their times.
func (p *Printer) SoFar(ctx context.Context, containers []podlogs.Container, streams []*podlogs.Stream) error {
	defer func() {
		for _, s := range streams {
			s.Close()
		}
	}()
	failed := false
	for i := range containers {
		c := &containers[i]
		if c.ID == "" {
			p.Command.Warn("%s has no log yet: pod %s/%s is %s", c.Component, c.Pod.Namespace, c.Pod.Name,
				cmp.Or(c.Pod.Status.Phase, corev1.PodPending))
			continue
		}
		body, err := p.Open(ctx, c.Pod, p.Options(c.Name, false))
		if err != nil {
			failed = true
			p.Command.Warn("cannot read the log of %s: pod %s/%s: %v", c.Component, c.Pod.Namespace, c.Pod.Name, err)
			continue
		}
		streams = append(streams, &podlogs.Stream{Component: c.Component, Reader: podlogs.NewReader(body, time.Time{})})
	}
	ended := func(s *podlogs.Stream, err error) {
		if !errors.Is(err, io.EOF) {
			failed = true
			p.Command.Warn("the log of %s is incomplete: %v", s.Component, err)
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
	err := podlogs.Merge(waiting, func(s *podlogs.Stream) error { return p.print(s.Component, s.Line.Text) }, ended)
	switch {
	case err != nil:
		return err
	case failed:
		return command.ErrFailed
	}
	return ctx.Err()
}

// print prints a line of a component.
func (p *Printer) print(component, text string) error {
	if !p.Plain {
		text = "[" + component + "] " + text
	}
	_, err := fmt.Fprintln(p.Command.Out, text)
	return err
}

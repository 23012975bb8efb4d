// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/access"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/overview"
)

// readTimeout ends a read that the API server does not answer.
const readTimeout = 30 * time.Second

// maxText is the length of an error or a warning on the screen, in bytes.
const maxText = 400

// data is what was read at one moment.
type data struct {
	overview *overview.Overview
	// problems are the lists that are missing, and missing their resources.
	problems, missing []string
	at                time.Time
	took              time.Duration
}

// reader reads the cluster. It can be used by one goroutine at a time.
type reader struct {
	client   live.OverviewClient
	load     func(ctx context.Context, c client.Client, namespace string) (*overview.Cluster, error)
	selector labels.Selector
	now      func() time.Time
}

func newReader(o *command.Options, f *flags) (*reader, error) {
	c, err := o.Client()
	if err != nil {
		return nil, err
	}
	return &reader{client: live.OverviewClient{Client: c}, load: access.Installation(o).Load, selector: f.labels, now: o.Now}, nil
}

// read reads a namespace, or all with "".
func (r *reader) read(ctx context.Context, namespace string) (*data, error) {
	begun := r.now()
	c, err := r.load(ctx, r.client, namespace)
	if err != nil {
		return nil, err
	}
	d := &data{overview: c.Overview(r.selector), at: begun, took: r.now().Sub(begun)}
	for _, p := range c.Problems {
		d.problems, d.missing = append(d.problems, display.Inert(p.String(), maxText)), append(d.missing, p.Resource)
	}
	return d, nil
}

// silence keeps libraries from writing on the screen.
func silence() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
}

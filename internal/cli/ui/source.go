// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/access"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/overview"
)

// source reads the cluster as the user of the kubeconfig.
type source struct {
	options *command.Options
	client  client.Client
	// writer is the client for what the user changes.
	writer client.Client
	// namespace is "" for all.
	namespace string
}

func newSource(o *command.Options) (*source, error) {
	namespace, c, err := o.Cluster()
	if err != nil {
		return nil, err
	}
	return &source{options: o, client: live.OverviewClient{Client: c, Version: live.FromCache}, writer: c, namespace: namespace}, nil
}

// Read implements console.Source. The configuration of the scheduler is read each time: it may change.
func (s *source) Read(ctx context.Context) (*overview.Reading, error) {
	settings, err := access.Installation(s.options).Settings(ctx, s.client)
	if err != nil {
		return nil, err
	}
	r, err := live.Read(ctx, s.client, settings, s.namespace)
	if err != nil || r.Domains == nil {
		return r, err
	}
	// Without the right, interruptions are unknown.
	_ = access.Installation(s.options).AddInterruptions(ctx, s.client, r.Domains, settings, s.options.Now())
	return r, nil
}

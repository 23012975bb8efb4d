// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/live"
	"berth.dev/berth/internal/console"
)

// source reads the cluster as the user of the kubeconfig.
type source struct {
	options *command.Options
	client  client.Client
	// namespace is "" for all.
	namespace string
}

func newSource(o *command.Options) (*source, error) {
	namespace, c, err := o.Cluster()
	if err != nil {
		return nil, err
	}
	return &source{options: o, client: live.OverviewClient{Client: c, Version: live.FromCache}, namespace: namespace}, nil
}

// Read implements console.Source.
func (s *source) Read(ctx context.Context) (*console.Reading, error) {
	cluster, err := s.options.LoadWith(ctx, s.client, s.namespace)
	if err != nil {
		return nil, err
	}
	if err := cluster.LoadLimits(ctx, s.client, s.namespace); err != nil {
		return nil, err
	}
	r := &console.Reading{Limits: cluster.Limits, Overview: cluster.Overview(nil)}
	for _, p := range cluster.Problems {
		r.Problems = append(r.Problems, p.Message)
	}
	return r, nil
}

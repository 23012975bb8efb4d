// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/live"
	"berth.dev/berth/internal/console"
	"berth.dev/berth/internal/environments/change"
	"berth.dev/berth/internal/environments/render"
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

// Read implements console.Source.
func (s *source) Read(ctx context.Context) (*console.Reading, error) {
	cluster, err := s.options.LoadWith(ctx, s.client, s.namespace)
	if err != nil {
		return nil, err
	}
	if err := cluster.LoadLimits(ctx, s.client, s.namespace); err != nil {
		return nil, err
	}
	if err := cluster.LoadProducts(ctx, s.client, s.namespace); err != nil {
		return nil, err
	}
	r := &console.Reading{
		Mixes: cluster.Mixes, Limits: cluster.Limits, Records: cluster.Records, Environments: cluster.Environments,
		Overview: cluster.Overview(nil),
	}
	for _, p := range cluster.Problems {
		r.Problems = append(r.Problems, p.Message)
	}
	return r, nil
}

// changeEnvironment implements console.ChangeEnvironment.
func (s *source) changeEnvironment(ctx context.Context, c client.Client, e *v1alpha1.Environment, verb string,
) (*v1alpha1.Environment, error) {
	return change.Environment(ctx, c, e, func(e *v1alpha1.Environment) error {
		switch render.Verb(verb) {
		case render.VerbStart:
			return render.Start(e)
		case render.VerbStop:
			return render.Stop(e, false)
		}
		return render.Restart(e, s.options.Now())
	})
}

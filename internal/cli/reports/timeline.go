// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"io"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/overview"
)

// Happenings implements console.Reports.
func (r Reports) Happenings(ctx context.Context, namespace string) ([]overview.Happening, error) {
	o, err := r.options(ctx, io.Discard, namespace)
	if err != nil {
		return nil, err
	}
	u, err := userOf(o)
	if err != nil {
		return nil, err
	}
	return u.Happenings(ctx, namespace)
}

// Moves implements console.Reports. An open page of a workload reads them again and again.
func (r Reports) Moves(ctx context.Context, kind string, workload client.ObjectKey) ([]overview.MoveEvent, error) {
	config, _, err := r.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c, err := live.EventClient(config)
	if err != nil {
		return nil, err
	}
	return live.Moves(ctx, c, kind, workload)
}

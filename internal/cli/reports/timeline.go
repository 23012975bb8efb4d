// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"io"

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

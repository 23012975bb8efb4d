// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/internal/kube/kinds"
	"berth.dev/berth/internal/mix/prices"
)

// Overlays reads the NodeOverlays of Karpenter: none where the API server does not serve them, or the user may not list them, of which it
// warns.
func (u *User) Overlays(ctx context.Context) (*prices.Overlays, error) {
	all, err := kinds.List[*unstructured.Unstructured](ctx, u.Client, kinds.ListOf(prices.NodeOverlay))
	switch {
	case kinds.NotServed(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		u.Warn("not allowed: list nodeoverlays.karpenter.sh: the prices that they set are in no figure")
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("list nodeoverlays.karpenter.sh: %w", err)
	}
	return prices.ReadOverlays(all), nil
}

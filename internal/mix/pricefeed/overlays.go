// SPDX-License-Identifier: Apache-2.0

package pricefeed

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/kube/kinds"
	"berth.dev/berth/internal/mix/prices"
)

// Overlays lists the NodeOverlays of Karpenter: none where the API server does not serve them.
func Overlays(ctx context.Context, c client.Client) (*prices.Overlays, error) {
	all, err := kinds.List[*unstructured.Unstructured](ctx, c, kinds.ListOf(prices.NodeOverlay))
	if kinds.NotServed(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list nodeoverlays.karpenter.sh: %w", err)
	}
	return prices.ReadOverlays(all), nil
}

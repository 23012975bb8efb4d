// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/mix/pricefeed"
	"berth.dev/berth/internal/mix/prices"
)

// overlaysForbidden is what a user may not read.
const overlaysForbidden = "not allowed: list nodeoverlays.karpenter.sh: the prices that they set are in no figure"

// Prices returns the prices of sources, with the NodeOverlays of Karpenter.
func (u *User) Prices(ctx context.Context, options prices.Options) (b *prices.Book, err error) {
	if options.Overlays, err = u.Overlays(ctx); err != nil {
		return nil, err
	}
	return prices.New(options)
}

// Overlays reads the NodeOverlays of Karpenter: none where the API server does not serve them, or the user may not list them, of which it
// warns.
func (u *User) Overlays(ctx context.Context) (*prices.Overlays, error) {
	o, forbidden, err := overlays(ctx, u.Client)
	if forbidden {
		u.Warn(overlaysForbidden)
	}
	return o, err
}

// Overlays is that of User for who reads them again and again: that they may not be listed is a note.
func Overlays(ctx context.Context, c client.Client) (*prices.Overlays, error) {
	o, forbidden, err := overlays(ctx, c)
	if forbidden {
		o = &prices.Overlays{Notes: []string{"NodeOverlays: " + overlaysForbidden + "."}}
	}
	return o, err
}

func overlays(ctx context.Context, c client.Client) (o *prices.Overlays, forbidden bool, err error) {
	if o, err = pricefeed.Overlays(ctx, c); apierrors.IsForbidden(err) {
		return nil, true, nil
	}
	return o, false, err
}

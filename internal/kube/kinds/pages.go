// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize is the limit of a list request.
const pageSize = 500

// List reads all pages of a list. A list whose pages expired is begun again.
func List[T client.Object](ctx context.Context, c client.Client, empty client.ObjectList, options ...client.ListOption) ([]T, error) {
	var all []T
	err := Pages(ctx, c, empty, func() { all = nil }, func(page []T) error {
		all = append(all, page...)
		return nil
	}, options...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Pages reads a list page by page, so that not all of it is in memory. Before a list whose pages expired is begun again, it calls again.
func Pages[T client.Object](ctx context.Context, c client.Client, empty client.ObjectList, again func(), each func([]T) error,
	options ...client.ListOption,
) error {
	token, tries := "", 0
	for {
		// A new list for each page: decoding reuses the memory of an old one.
		page, _ := empty.DeepCopyObject().(client.ObjectList)
		err := c.List(ctx, page, append(slices.Clone(options), client.Limit(pageSize), client.Continue(token))...)
		if apierrors.IsResourceExpired(err) && tries < 3 {
			again()
			token, tries = "", tries+1
			continue
		}
		if err != nil {
			return err
		}
		var objects []T
		_ = meta.EachListItem(page, func(o runtime.Object) error {
			if object, ok := o.(T); ok {
				objects = append(objects, object)
			}
			return nil
		})
		if err := each(objects); err != nil {
			return err
		}
		if token = page.GetContinue(); token == "" {
			return nil
		}
	}
}

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
	token, tries := "", 0
	for {
		// A new list for each page: decoding reuses the memory of an old one.
		page, _ := empty.DeepCopyObject().(client.ObjectList)
		err := c.List(ctx, page, append(slices.Clone(options), client.Limit(pageSize), client.Continue(token))...)
		if apierrors.IsResourceExpired(err) && tries < 3 {
			all, token, tries = nil, "", tries+1
			continue
		}
		if err != nil {
			return nil, err
		}
		_ = meta.EachListItem(page, func(o runtime.Object) error {
			if object, ok := o.(T); ok {
				all = append(all, object)
			}
			return nil
		})
		if token = page.GetContinue(); token == "" {
			return all, nil
		}
	}
}

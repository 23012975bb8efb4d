// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FromCache is the Version of lists that the API server answers from its cache, without reading etcd. The cache may be a moment behind.
const FromCache = "0"

// OverviewClient reads what an overview requires, with lists that are at least of a version; "" is the current one.
type OverviewClient struct {
	client.Client
	Version string
}

// List lists a kind, except PodDisruptionBudgets: the overview has none.
func (c OverviewClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, unused := list.(*policyv1.PodDisruptionBudgetList); unused {
		return nil
	}
	o := (&client.ListOptions{}).ApplyOptions(options)
	if o.Continue == "" { // the API server refuses a version with a token
		o.Raw = &metav1.ListOptions{ResourceVersion: c.Version}
	}
	return c.Client.List(ctx, list, o)
}

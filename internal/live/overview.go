// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
)

// MixesResource is how problems call the list of CapacityMixes.
const MixesResource = "capacitymixes." + v1alpha1.GroupName

// Overview is that of the workloads whose pods a selector matches; nil matches all.
func (c *Cluster) Overview(selector labels.Selector) *overview.Overview {
	return overview.Of(overview.Input{
		State: c.State, Pods: c.Pods, Nodes: c.Nodes, Mixes: c.Mixes, Unread: c.Unread(), Selector: selector,
	})
}

// Unread are the lists without which mixes cannot be judged, and that could not be read.
func (c *Cluster) Unread() overview.Unread {
	return overview.Unread{Pods: c.Missing("pods"), Nodes: c.Missing("nodes"), Mixes: c.Missing(MixesResource)}
}

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

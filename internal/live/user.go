// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/rebalance"
)

// User reads a cluster with the rights of a user: that of a kubeconfig, or of a request.
type User struct {
	Installation
	Config *rest.Config
	Client client.Client
	Now    func() time.Time
	// Warn gets what could not be read and is not required.
	Warn func(format string, args ...any)
}

// Load reads a namespace, or all with "", and warns of the lists that are missing.
func (u *User) Load(ctx context.Context, namespace string) (*overview.Cluster, error) {
	cluster, err := u.Installation.Load(ctx, u.Client, namespace)
	if err != nil {
		return nil, err
	}
	u.warnOf(cluster.Problems)
	cluster.Owner, cluster.Pauses = u.owners(), u.pauses()
	return cluster, nil
}

// owners reads each owner of units once: a set whose pods have roles has several groups. The API of its kind may be away, which is no
// failure of what is read of others.
func (u *User) owners() func(context.Context, clusterstate.Workload) rebalance.Scale {
	known := map[clusterstate.Workload]rebalance.Scale{}
	return func(ctx context.Context, w clusterstate.Workload) rebalance.Scale {
		s, there := known[w]
		if there {
			return s
		}
		s, err := rebalance.ReadSet(w, func(set *unstructured.Unstructured) error {
			return u.Client.Get(ctx, client.ObjectKeyFromObject(set), set)
		})
		if err != nil {
			u.Warn("cannot %v", err)
		}
		known[w] = s
		return s
	}
}

func (u *User) warnOf(problems []overview.Problem) {
	for _, p := range problems {
		u.Warn("%s", p)
	}
}

// Nodes returns the type of each node that a selector chooses, all with nil, or only the nodes of unknown type.
func (u *User) Nodes(ctx context.Context, unknown bool, selector labels.Selector) (*overview.Nodes, error) {
	cluster, err := u.Load(ctx, "")
	if err != nil {
		return nil, err
	}
	if cluster.Missing("nodes") {
		return nil, errors.New("cannot list nodes")
	}
	return overview.NodesOf(cluster, unknown, selector), nil
}

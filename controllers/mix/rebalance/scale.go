// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/rebalance"
)

// scales reads how many replicas an owner requests of a kind that the cluster state does not watch; known is false where the kind has
// no scale subresource, or the owner is another one by now.
type scales func(ctx context.Context, owner clusterstate.Workload) (replicas int, known bool, err error)

// readScales returns scales of an API server.
func readScales(c client.Client) scales {
	return func(ctx context.Context, owner clusterstate.Workload) (int, bool, error) {
		parent, scale := &unstructured.Unstructured{}, &unstructured.Unstructured{}
		parent.SetAPIVersion(owner.APIVersion)
		parent.SetKind(owner.Kind)
		parent.SetNamespace(owner.Namespace)
		parent.SetName(owner.Name)
		scale.SetAPIVersion("autoscaling/v1")
		scale.SetKind("Scale")
		err := c.SubResource("scale").Get(ctx, parent, scale)
		switch {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err), meta.IsNoMatchError(err):
			return 0, false, nil
		case err != nil:
			return 0, false, fmt.Errorf("read the scale of %s: %w", owner, err)
		case scale.GetUID() != owner.UID:
			return 0, false, nil
		}
		n, _, err := unstructured.NestedInt64(scale.Object, "spec", "replicas") // absent means 0
		return int(n), err == nil && n >= 0, nil
	}
}

// followScale takes over how many pods must be back from the owner, where a move waits for them: the user may have scaled it
// meanwhile. Where it cannot be read, what was there before the move counts.
func (c *Controller) followScale(ctx context.Context, e workloads.Entry, g *clusterstate.Group) workloads.Entry {
	if e.Had == 0 || g.Ended {
		e.Scaled = false
		return e
	}
	if n, known, err := c.scaleOf(ctx, g); err == nil && known {
		e.Had, e.Scaled = rebalance.FollowScale(e.Had, e.Scaled, n)
	}
	return e
}

// checkScale returns a hold for the first move of a workload with fewer pods than the scale of its owner requests: pods that
// were missing before are known to nothing else. For the moves after it, Had tells: the entry notes whether that follows the
// scale from here on.
func (c *Controller) checkScale(ctx context.Context, w *evaluation, v rebalance.Verdict) *workloads.Hold {
	n, known, err := c.scaleOf(ctx, &w.Group)
	have := len(w.Group.Assignments) + len(w.Group.Taken)
	switch {
	case err != nil:
		return w.hold(v, ReasonCapacityUnproven, holdRefused, "%v", err)
	case !known || w.Had != 0:
		return nil
	case have < n:
		return w.hold(v, rebalance.ReasonReplicasMissing, holdRefused, "the owner has %d pods, and its scale requests %d", have, n)
	}
	_, w.Scaled = rebalance.FollowScale(len(w.Group.Assignments), false, n)
	return nil
}

// scaleOf reads the scale of a group's owner, if nothing else tells how many replicas it requests.
func (c *Controller) scaleOf(ctx context.Context, g *clusterstate.Group) (n int, known bool, err error) {
	if g.Counted || c.scales == nil || string(g.Workload.UID) != g.Key.ID {
		return 0, false, nil
	}
	err = c.bounded(ctx, func(ctx context.Context) error {
		n, known, err = c.scales(ctx, g.Workload)
		return err
	})
	return n, known, err
}

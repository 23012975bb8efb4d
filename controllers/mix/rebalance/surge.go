// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/rebalance"
)

// FieldOwner is the field manager of what the controller writes on pods that it releases.
const FieldOwner = "berth-controller-surge"

// survey reads what could be against the release of a replica.
func (c *Controller) survey(ctx context.Context, a rebalance.Action) (r rebalance.Result) {
	pod, err := c.api.replica(ctx, a.Verdict.Pod)
	if err == nil && c.neighbours == nil {
		c.neighbours, err = c.api.neighbours(ctx, pod)
	}
	if err != nil {
		r.Err = err
		return r
	}
	w := a.Of.Group.Workload
	r.Unreleasable = c.neighbours.Unreleasable(pod, w, rebalance.HashKey(a.Verdict.Pod, w), a.Flees)
	return r
}

// neighbours reads the objects of a pod's namespace that a release depends on. One that has too many of them is not known.
func (a *calls) neighbours(ctx context.Context, pod *corev1.Pod) (*rebalance.Neighbours, error) {
	n := &rebalance.Neighbours{}
	var err error
	if n.Bounds, err = a.bounds(ctx, pod.Namespace); err != nil {
		return nil, err
	}
	if n.Budgets, err = budgetsIn(ctx, a.Reader, pod.Namespace); err != nil {
		return nil, err
	}
	more := ""
	err = a.bounded(ctx, func(ctx context.Context) (err error) {
		more, err = a.listNeighbours(ctx, pod, n)
		return err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the Services, autoscalers and claims of the namespace: %w", err)
	case more != "":
		return nil, rebalance.ReasonCapacityUnproven.Obstacle(rebalance.HoldRefused, "the namespace has more than %d %s", pageSize, more)
	}
	return n, nil
}

// listNeighbours returns the kind of which there are too many, "" if there are not.
func (a *calls) listNeighbours(ctx context.Context, pod *corev1.Pod, n *rebalance.Neighbours) (more string, err error) {
	all := metav1.ListOptions{Limit: pageSize}
	services, err := a.Client.CoreV1().Services(pod.Namespace).List(ctx, all)
	if err != nil {
		return "", err
	}
	n.Services, more = services.Items, tooMany(more, services, "Services")
	autoscalers, err := a.Client.AutoscalingV2().HorizontalPodAutoscalers(pod.Namespace).List(ctx, all)
	if err != nil {
		return "", err
	}
	n.Autoscalers, more = autoscalers.Items, tooMany(more, autoscalers, "HorizontalPodAutoscalers")
	if !usesClaims(pod) {
		return more, nil
	}
	claims, err := a.Client.CoreV1().PersistentVolumeClaims(pod.Namespace).List(ctx, all)
	if err != nil {
		return "", err
	}
	n.Claims = claims.Items
	return tooMany(more, claims, "PersistentVolumeClaims"), nil
}

func tooMany(more string, list metav1.ListInterface, kind string) string {
	if list.GetContinue() != "" {
		return kind
	}
	return more
}

func usesClaims(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].PersistentVolumeClaim != nil {
			return true
		}
	}
	return false
}

// surge releases a replica whose replacement has capacity.
func (c *Controller) surge(ctx context.Context, a rebalance.Action) (r rebalance.Result) {
	if r.Err = c.current(ctx, a); r.Err != nil {
		r.Eviction = resultChanged
		return r
	}
	return c.letGo(ctx, a, a.Pod, func(err error) rebalance.Result { return c.began(ctx, a, err) })
}

// flee releases a replica on a node that departs, or whose eviction is requested, once there is a place for its replacement if that waits.
func (c *Controller) flee(ctx context.Context, a rebalance.Action) (r rebalance.Result) {
	if a.Requested {
		r.Err = c.confirmed(ctx, &a) // a proof costs more
	}
	if r.Err == nil && a.Proves {
		r = c.place(ctx, &a)
	}
	if r.Err != nil {
		return r
	}
	admitted := r.Admitted
	if r.Err = c.mayGo(ctx, &a); r.Err != nil {
		return r
	}
	r = c.letGo(ctx, a, a.Pod, func(err error) (r rebalance.Result) {
		r.Eviction, r.Err = refusal(a, err)
		return r
	})
	if r.Admitted = admitted; a.Proves && r.Err == nil && r.Unreleasable == "" {
		r.Node = a.Proof.Node
		c.proof.promise(a.Proof)
		if a.Placeholder != nil {
			r.Placeholder = c.holders.end(ctx, a.Placeholder, rebalance.Used)
		}
	}
	return r
}

// confirmed reads a replica, and the request for its eviction if there is one.
func (c *Controller) confirmed(ctx context.Context, a *rebalance.Action) (err error) {
	if a.Pod, err = c.api.replica(ctx, a.Verdict.Pod); err == nil && a.Requested {
		err = c.Requests.Confirm(ctx, a.Pod)
	}
	return err
}

// mayGo reads what has to be true of a replica when it is released.
func (c *Controller) mayGo(ctx context.Context, a *rebalance.Action) error {
	err := c.confirmed(ctx, a)
	if err == nil && a.Proves {
		err = c.proof.recreated(ctx, *a)
	}
	if err == nil {
		err = c.api.checkMix(ctx, &a.Of, a.Pod)
	}
	if err == nil {
		err = c.api.checkPaused(ctx, a.Verdict.Pod.Namespace)
	}
	return err
}

// place proves that the replacement of a replica on a node that departs fits beside the replica. A placeholder that runs where the
// replacement does not fit is deleted.
func (c *Controller) place(ctx context.Context, a *rebalance.Action) (r rebalance.Result) {
	a.Surge = true
	proof, err := c.proof.prove(ctx, *a)
	a.Proof, r.Err, r.Admitted = &proof, err, proof.Admitted != nil
	if err != nil && a.Placeholder != nil && rebalance.ObstacleOf(err).Reason == rebalance.ReasonInsufficientCapacity &&
		c.proof.misplaced(ctx, *a) {
		r.Placeholder = c.holders.end(ctx, a.Placeholder, rebalance.Dropped)
	}
	return r
}

// letGo writes the patch that releases a replica from its ReplicaSet and from its group. The result is that of the answer, but where the
// API server does not allow the patch at all, for example by an admission policy.
func (c *Controller) letGo(
	ctx context.Context, a rebalance.Action, pod *corev1.Pod, answered func(error) rebalance.Result,
) rebalance.Result {
	g := &a.Of.Group
	key := rebalance.HashKey(a.Verdict.Pod, g.Workload)
	patch, err := rebalance.ReleasePatch(pod, g, key, rebalance.ReleaseFor(g, c.MoveTimeout), c.Clock.Now())
	if err == nil {
		err = c.api.write(ctx, func(ctx context.Context) error {
			_, err := c.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch,
				metav1.PatchOptions{FieldManager: FieldOwner})
			return err
		})
	}
	if apierrors.IsForbidden(err) {
		return rebalance.Result{Eviction: resultError, Unreleasable: fmt.Sprintf("the API server does not allow to release it: %v", err)}
	}
	r := answered(err)
	if r.Err == nil && c.neighbours != nil {
		c.neighbours.Bounds.Replace(pod, nil) // its replacement is about to be created
	}
	return r
}

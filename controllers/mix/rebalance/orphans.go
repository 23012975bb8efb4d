// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"slices"
	"time"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
)

// orphans looks once for the requests that an earlier leader left: it ended after a move had, and before it withdrew the request.
type orphans struct {
	*Options
	api *calls
	// done is set once they were read, again is when that is tried next.
	done  bool
	again time.Time
}

// find returns the requests for pods that are not being moved, as withdrawals that are due. Moving are the pods that are.
func (o *orphans) find(ctx context.Context, now time.Time, moving func() map[types.UID]bool) map[types.UID]withdrawal {
	if o.done || now.Before(o.again) || o.Journal.Name == "" || !o.Workloads.Complete() { // else the moves are not known
		return nil
	}
	left := map[types.UID]withdrawal{}
	err := o.api.bounded(ctx, func(ctx context.Context) error {
		return o.read(ctx, func(r *lifecyclev1alpha1.EvictionRequest) {
			if p := r.Spec.Target.Pod; o.ours(r) && len(left) < maxWithdrawals {
				left[p.UID] = withdrawal{namespace: r.Namespace, pod: p.Name, since: now, again: now}
			}
		})
	})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err): // they are not served, or may not be made
	case err != nil:
		o.again = now.Add(withdrawAgain)
		log.FromContext(ctx).Info("The requests of an earlier leader to evict replicas are not read yet", "error", err.Error())
		return nil
	}
	o.done = true
	if len(left) > 0 {
		for uid := range moving() {
			delete(left, uid)
		}
	}
	return left
}

func (o *orphans) read(ctx context.Context, each func(*lifecyclev1alpha1.EvictionRequest)) error {
	namespaces := o.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		for page := (metav1.ListOptions{Limit: pageSize}); ; {
			list, err := o.Client.LifecycleV1alpha1().EvictionRequests(namespace).List(ctx, page)
			if err != nil {
				return err
			}
			for i := range list.Items {
				each(&list.Items[i])
			}
			if page.Continue = list.Continue; page.Continue == "" {
				break
			}
		}
	}
	return nil
}

// ours reports whether this controller moves the pod of a request, and the request is for that: another Berth has other schedulers.
func (o *orphans) ours(r *lifecyclev1alpha1.EvictionRequest) bool {
	target := r.Spec.Target.Pod
	if r.Spec.Requester != v1alpha1.EvictionRequester || r.Spec.Intent != lifecyclev1alpha1.EvictionRequestIntentEviction || target == nil {
		return false
	}
	p := o.State.Pod(r.Namespace, target.Name)
	return p != nil && p.UID == target.UID && slices.Contains(o.Profile.SchedulerNames, p.SchedulerName)
}

// requestedMoves are the pods that are being moved by a request.
func (o *Options) requestedMoves() map[types.UID]bool {
	all := map[types.UID]bool{}
	for _, e := range o.Workloads.All() {
		for i := range e.Moves {
			if m := &e.Moves[i]; m.Requested {
				all[m.UID] = true
			}
		}
	}
	return all
}

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

// readOrphansAgain is when the requests of earlier leaders are read again, where that may not be.
const readOrphansAgain = 10 * time.Minute

// orphans reads once, a page at a time, the requests that an earlier leader left: it ended after a move had, and before it withdrew the
// request.
type orphans struct {
	*Options
	// moves reports whether the moves of earlier leaders are known. Without these, each request looks as if it were left.
	moves func() (known bool)
	// left are the requests of the page that was read last.
	left []orphan
	// done is set once all were read. Until then at counts the namespaces that were, and token continues the next one.
	done  bool
	at    int
	token string
	// again is when the next page is read after one that could not be.
	again time.Time
}

type orphan struct {
	uid types.UID
	withdrawal
}

// next returns a request to withdraw now, if there is one.
func (o *orphans) next(ctx context.Context, now time.Time) (left orphan, found bool) {
	if len(o.left) == 0 && !o.done && !now.Before(o.again) && o.moves() && o.Workloads.Complete() {
		o.read(ctx, now)
	}
	for len(o.left) > 0 {
		left, o.left = o.left[0], o.left[1:]
		if !o.moving(left.namespace, left.uid) {
			return left, true
		}
	}
	return left, false
}

// read reads a page. That it fails is no outage of the API server: nothing else depends on it.
func (o *orphans) read(ctx context.Context, now time.Time) {
	within, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	namespace := metav1.NamespaceAll
	if len(o.Namespaces) > 0 {
		namespace = o.Namespaces[o.at]
	}
	page := metav1.ListOptions{Limit: pageSize, Continue: o.token}
	list, err := o.Client.LifecycleV1alpha1().EvictionRequests(namespace).List(within, page)
	switch {
	case apierrors.IsNotFound(err): // they are not served
		o.done = true
		return
	case apierrors.IsResourceExpired(err):
		o.token = ""
		return
	case err != nil:
		if o.again = now.Add(withdrawAgain); apierrors.IsForbidden(err) {
			o.again = now.Add(readOrphansAgain)
		}
		log.FromContext(ctx).Info("The requests of an earlier leader to evict replicas are not read yet", "error", err.Error())
		return
	}
	for i := range list.Items {
		if r := &list.Items[i]; o.ours(r) {
			p := r.Spec.Target.Pod
			o.left = append(o.left, orphan{p.UID, withdrawal{namespace: r.Namespace, pod: p.Name, since: now}})
		}
	}
	if o.token = list.Continue; o.token == "" {
		o.at++
		o.done = o.at >= len(o.Namespaces)
	}
}

// ours reports whether this controller moves the pod of a request, and the request is for that: another Berth has other schedulers.
func (o *orphans) ours(r *lifecyclev1alpha1.EvictionRequest) bool {
	target := r.Spec.Target.Pod
	if r.Spec.Requester != v1alpha1.EvictionRequester || r.Spec.Intent != lifecyclev1alpha1.EvictionRequestIntentEviction ||
		target == nil || r.Name != requestName(target.UID) {
		return false
	}
	p := o.State.Pod(r.Namespace, target.Name)
	return p != nil && p.UID == target.UID && slices.Contains(o.Profile.SchedulerNames, p.SchedulerName)
}

// moving reports whether a pod is being moved by a request.
func (o *orphans) moving(namespace string, uid types.UID) bool {
	for _, e := range o.Workloads.Unsettled(namespace) {
		for i := range e.Moves {
			if m := &e.Moves[i]; m.Requested && m.UID == uid {
				return true
			}
		}
	}
	return false
}

// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	lifecycleapply "k8s.io/client-go/applyconfigurations/lifecycle/v1alpha1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/rebalance"
)

// RequestOwner is the field manager of EvictionRequests.
const RequestOwner = "berth-controller-rebalance"

const (
	// withdrawAgain is when a withdrawal that failed is tried again, and dropAfter when it is not any more: the responders have gone on.
	withdrawAgain, dropAfter = 10 * time.Second, time.Hour
	// maxWithdrawals bounds the withdrawals that are tried again, and maxSwept those of one reconcile.
	maxWithdrawals, maxSwept = 1000, 1
)

// requester moves replicas by EvictionRequests. There is one for a pod, which ends with it.
type requester struct {
	*Options
	api *calls
	// left are the withdrawals that failed, by the UIDs of the pods.
	left map[types.UID]withdrawal
	// orphans are the requests of earlier leaders.
	orphans orphans
}

type withdrawal struct {
	namespace, pod string
	since, again   time.Time
}

// request requests the eviction of a pod.
func (q *requester) request(ctx context.Context, pod *corev1.Pod) error {
	delete(q.left, pod.UID)
	return q.apply(ctx, pod.Namespace, pod.Name, pod.UID, lifecyclev1alpha1.EvictionRequestIntentEviction)
}

// abandon withdraws the requests for moves of a workload that has no mix, or no pods, any more.
func (q *requester) abandon(ctx context.Context, moves []rebalance.Move) {
	var ended []rebalance.Ending
	for i := range moves {
		ended = append(ended, rebalance.Ending{Move: moves[i], Outcome: rebalance.TimedOut})
	}
	q.withdraw(ctx, ended)
}

// withdraw withdraws the requests for moves that are over, and whose pods are not to go any more. It does so in a dry run, too: the
// requests were made before.
func (q *requester) withdraw(ctx context.Context, ended []rebalance.Ending) {
	for i := range ended {
		e := &ended[i]
		if !e.Withdraws() {
			continue
		}
		now := q.Clock.Now()
		q.try(ctx, e.Move.UID, withdrawal{namespace: e.Move.Namespace, pod: e.Move.Name, since: now}, now)
	}
}

// sweep withdraws what an earlier leader requested, and tries withdrawals again.
func (q *requester) sweep(ctx context.Context, now time.Time) {
	if o, found := q.orphans.next(ctx, now); found {
		q.try(ctx, o.uid, o.withdrawal, now)
		return
	}
	tried := 0
	for uid, w := range q.left {
		switch {
		case now.Sub(w.since) >= dropAfter:
			delete(q.left, uid)
		case !now.Before(w.again) && tried < maxSwept:
			tried++
			q.try(ctx, uid, w, now)
		}
	}
}

func (q *requester) try(ctx context.Context, uid types.UID, w withdrawal, now time.Time) {
	err := q.apply(ctx, w.namespace, w.pod, uid, lifecyclev1alpha1.EvictionRequestIntentWithdrawn)
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		delete(q.left, uid) // another one has it, and what is refused once is refused again
		return
	}
	if w.again = now.Add(withdrawAgain); len(q.left) < maxWithdrawals {
		q.left[uid] = w
	}
	log.FromContext(ctx).Info("A request to evict a replica is not withdrawn yet", "namespace", w.namespace, "pod", w.pod, "error", err.Error())
}

// requestName is that of the request of Berth for a pod.
func requestName(uid types.UID) string { return "berth-" + string(uid) }

// apply writes the request for a pod. Its pod owns it, so that it is deleted with the pod.
func (q *requester) apply(
	ctx context.Context, namespace, pod string, uid types.UID, intent lifecyclev1alpha1.EvictionRequestIntent,
) error {
	target := lifecycleapply.EvictionRequestPodReference().WithName(pod).WithUID(uid)
	r := lifecycleapply.EvictionRequest(requestName(uid), namespace).
		WithOwnerReferences(metav1apply.OwnerReference().WithAPIVersion("v1").WithKind("Pod").WithName(pod).WithUID(uid)).
		WithSpec(lifecycleapply.EvictionRequestSpec().WithRequester(v1alpha1.EvictionRequester).WithIntent(intent).
			WithTarget(lifecycleapply.EvictionRequestTarget().WithPod(target)))
	return q.api.write(ctx, func(ctx context.Context) error {
		_, err := q.Client.LifecycleV1alpha1().EvictionRequests(namespace).Apply(ctx, r,
			metav1.ApplyOptions{FieldManager: RequestOwner, Force: true})
		return err
	})
}

// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"errors"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/rebalance"
)

const (
	// callTimeout bounds one call to the API server, for which everything else waits.
	callTimeout = 5 * time.Second
	// pageSize and maxPages bound the list of a workload's pods. With a larger one nothing is moved.
	pageSize, maxPages = 500, 40
)

// bounded makes a call that ends in time. Where the API server does not answer it, the grace begins again: what the watches
// show may be old.
func (c *Controller) bounded(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := call(ctx)
	c.noteOutage(err)
	return err
}

// noteOutage notes a call without an answer, and the first one after it that has one.
func (c *Controller) noteOutage(err error) {
	lost := unanswered(err)
	if lost || c.away {
		c.Outage(c.Clock.Now())
	}
	c.away = lost
}

// unanswered reports whether an error means that the API server did not answer, so that it may have carried the call out.
func unanswered(err error) bool {
	var timeout net.Error
	switch {
	case err == nil:
		return false
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return true
	}
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err) ||
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err)
}

func (c *Controller) readPod(ctx context.Context, of *clusterstate.Pod) (pod *corev1.Pod, err error) {
	err = c.bounded(ctx, func(ctx context.Context) error {
		pod, err = c.Client.CoreV1().Pods(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
		return err
	})
	return pod, err
}

// confirm makes a decision again right before it is carried out: by the pods of the workload that the API server has now,
// and by the grace, the storms and the budgets of this moment, since the proof of room may have taken long. It returns the
// replica as it is now, or a hold.
func (c *Controller) confirm(ctx context.Context, w *evaluation, v rebalance.Verdict, again func() rebalance.Verdict) (*corev1.Pod, *workloads.Hold) {
	if hold := c.checkScale(ctx, w, v); hold != nil {
		return nil, hold
	}
	live, err := c.livePods(ctx, &w.Group)
	if err != nil {
		return nil, w.hold(v, ReasonUnproven, holdRefused, "read the pods of the workload: %v", err)
	}
	if what := rebalance.Differs(&w.Group, moved(w.Moves), live); what != "" {
		return nil, w.hold(v, rebalance.ReasonStaleView, holdChanged, "%s, which the watch has not shown yet", what)
	}
	if now := again(); now.Reason != rebalance.ReasonMove {
		hold := w.hold(v, now.Reason, holdChanged, "%s", now.Message)
		if now.RetryAt.After(hold.Until) {
			hold.Until, hold.Verdict.RetryAt = now.RetryAt, now.RetryAt
		}
		return nil, hold
	}
	pod := find(live, v.Pod.UID)
	if pod == nil || !unchanged(pod, v) {
		return nil, w.hold(v, ReasonChanged, holdChanged, "pod %s has changed", v.Pod.Name)
	}
	return pod, nil
}

// livePods lists the pods of a workload as the API server has them at this moment.
func (c *Controller) livePods(ctx context.Context, g *clusterstate.Group) (mine []corev1.Pod, err error) {
	options := metav1.ListOptions{LabelSelector: rebalance.SelectorOf(g).String(), Limit: pageSize}
	err = c.bounded(ctx, func(ctx context.Context) error {
		for range maxPages {
			page, err := c.Client.CoreV1().Pods(g.Key.Namespace).List(ctx, options)
			if err != nil {
				return err
			}
			for i := range page.Items {
				if rebalance.Mine(g, &page.Items[i]) {
					mine = append(mine, page.Items[i])
				}
			}
			if options.Continue = page.Continue; options.Continue == "" {
				return nil
			}
		}
		return errors.New("there are too many")
	})
	return mine, err
}

func find(pods []corev1.Pod, uid types.UID) *corev1.Pod {
	for i := range pods {
		if pods[i].UID == uid {
			return &pods[i]
		}
	}
	return nil
}

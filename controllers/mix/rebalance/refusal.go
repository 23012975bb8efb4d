// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/rebalance"
)

// refusal turns the API server's answer into a hold; nil means that it agreed.
func (w *evaluation) refusal(v rebalance.Verdict, err error) *workloads.Hold {
	if err == nil {
		return nil
	}
	selecting := len(rebalance.Selecting(w.budgets, v.Pod.Labels))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		w.count(resultChanged)
		return w.changed(v)
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		w.count(resultBudget)
		return w.hold(v, rebalance.ReasonPDB, holdRefused, "the eviction of pod %s was refused: %v", v.Pod.Name, err)
	case apierrors.IsInternalError(err) && selecting > 1:
		// The API server has the same answer for more than one budget and for a webhook that it cannot call.
		w.count(resultOverlapping)
		return w.hold(v, rebalance.ReasonOverlappingPDBs, holdRefused, "the eviction of pod %s was refused: %v", v.Pod.Name, err)
	case apierrors.IsInternalError(err):
		w.count(resultError)
		return w.hold(v, ReasonEvictionFailed, holdRefused, "the API server could not carry out the eviction of pod %s: %v", v.Pod.Name, err)
	}
	w.count(resultError)
	return w.hold(v, ReasonRefused, holdRefused, "the eviction of pod %s failed: %v", v.Pod.Name, err)
}

// refused has a workload back off after an eviction that was refused, as after a move that failed: the attempt alone may have
// done something, such as that of an admission webhook which restarts the pods itself. With another cause than the last time,
// only the moves that failed before count.
func (c *Controller) refused(w *evaluation, hold *workloads.Hold) {
	v := hold.Verdict
	if v.Reason == ReasonChanged {
		return
	}
	r := workloads.Refusal{Reason: v.Reason, Message: v.Message, Labels: v.Pod.Labels}
	r.By = refusedBy(&r, w.budgets)
	r.Failures, r.RetryAt = w.Failures, w.RetryAt
	if last := w.Refusal; last.By != "" {
		r.Failures, r.RetryAt = last.Failures, last.RetryAt
		if last.By != r.By {
			w.Failures = last.Failures
		}
	}
	w.Refusal = r
	c.limits().fail(&w.Entry, w.now)
	if w.RetryAt.Before(hold.Until) {
		w.RetryAt = hold.Until
	}
	hold.Until, hold.Verdict.RetryAt = w.RetryAt, w.RetryAt
}

// forgetRefusal ends the pause after a refused eviction once the budgets of the pod are others: a user has repaired what
// refused it.
func (w *evaluation) forgetRefusal() {
	if w.Refusal.By == "" || w.Refusal.By == refusedBy(&w.Refusal, w.budgets) {
		return
	}
	reason := w.Refusal.Reason
	w.Failures, w.RetryAt = w.Refusal.Failures, w.Refusal.RetryAt
	w.Refusal = workloads.Refusal{}
	w.Held = maps.Clone(w.Held)
	maps.DeleteFunc(w.Held, func(_ string, h workloads.Hold) bool { return h.Verdict.Reason == reason })
}

// refusedBy identifies what refuses an eviction: the reason with the budgets of the pod. How many disruptions a budget allows
// counts only where it was what refused: for others it changes with every pod that restarts.
func refusedBy(r *workloads.Refusal, budgets []rebalance.DisruptionBudget) string {
	text := []string{string(r.Reason)}
	for _, b := range rebalance.Selecting(budgets, r.Labels) {
		one := fmt.Sprintf("%s/%d", b.UID, b.Generation)
		if r.Reason == rebalance.ReasonPDB {
			one += fmt.Sprintf("/%d", b.Allowed)
		}
		text = append(text, one)
	}
	slices.Sort(text[1:])
	return strings.Join(text, " ")
}

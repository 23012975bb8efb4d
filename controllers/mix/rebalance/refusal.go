// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"berth.dev/berth/internal/mix/rebalance"
)

// refusal turns the API server's answer into a hold; nil means that it agreed.
func (w *evaluation) refusal(v rebalance.Verdict, err error) *rebalance.Hold {
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
		return w.hold(v, rebalance.ReasonEvictionFailed, holdRefused, "the API server could not carry out the eviction of pod %s: %v", v.Pod.Name, err)
	}
	w.count(resultError)
	return w.hold(v, rebalance.ReasonRefused, holdRefused, "the eviction of pod %s failed: %v", v.Pod.Name, err)
}

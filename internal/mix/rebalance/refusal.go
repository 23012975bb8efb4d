// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth.dev/berth/internal/mix/clusterstate"
)

// HoldBack leaves the replica of a hold alone for a while; nil is none. What the API server refused, or did not answer, for
// one replica it would for the next: then all are left alone.
func (e *Entry) HoldBack(hold *Hold) {
	if hold == nil {
		return
	}
	held := maps.Clone(e.Held)
	if held == nil {
		held = map[string]Hold{}
	}
	held[string(hold.Verdict.Pod.UID)] = *hold
	if r := hold.Verdict.Reason; r.Holds(&e.Group) {
		for _, s := range e.Group.Assignments {
			if r.Scope == OfWorkload || sameOwner(s.Pod, hold.Verdict.Pod) {
				held[string(s.Pod.UID)] = *hold
			}
		}
	}
	e.Held = held
}

// sameOwner reports whether two pods of a group are created from the same template.
func sameOwner(a, b *clusterstate.Pod) bool {
	return a.Owner == nil || b.Owner == nil || a.Owner.UID == b.Owner.UID
}

// Refuse has a workload back off after an eviction that was refused, as after a move that failed: the attempt alone may have
// done something, such as that of an admission webhook which restarts the pods itself. With another cause than the last time,
// only the moves that failed before count.
func (e *Entry) Refuse(hold *Hold, budgets []DisruptionBudget, now time.Time, l Limits) {
	v := hold.Verdict
	if v.Reason == ReasonChanged {
		return
	}
	r := Refusal{Reason: v.Reason, Message: v.Message, Labels: v.Pod.Labels}
	r.By = refusedBy(&r, budgets)
	r.Failures, r.RetryAt = e.Failures, e.RetryAt
	if last := e.Refusal; last.By != "" {
		r.Failures, r.RetryAt = last.Failures, last.RetryAt
		if last.By != r.By {
			e.Failures = last.Failures
		}
	}
	e.Refusal = r
	l.fail(e, now)
	if e.RetryAt.Before(hold.Until) {
		e.RetryAt = hold.Until
	}
	hold.Until, hold.Verdict.RetryAt = e.RetryAt, e.RetryAt
}

// ForgetRefusal ends the pause after a refused eviction once the budgets of the pod are others: a user has repaired what
// refused it.
func (e *Entry) ForgetRefusal(budgets []DisruptionBudget) {
	if e.Refusal.By == "" || e.Refusal.By == refusedBy(&e.Refusal, budgets) {
		return
	}
	reason := e.Refusal.Reason
	e.Failures, e.RetryAt = e.Refusal.Failures, e.Refusal.RetryAt
	e.Refusal = Refusal{}
	e.Held = maps.Clone(e.Held)
	maps.DeleteFunc(e.Held, func(_ string, h Hold) bool { return h.Verdict.Reason == reason })
}

// refusedBy identifies what refuses an eviction: the reason with the budgets of the pod. How many disruptions a budget allows
// counts only where it was what refused: for others it changes with every pod that restarts.
func refusedBy(r *Refusal, budgets []DisruptionBudget) string {
	text := []string{r.Reason.Name}
	for _, b := range Selecting(budgets, r.Labels) {
		one := fmt.Sprintf("%s/%d", b.UID, b.Generation)
		if r.Reason == ReasonPDB {
			one += fmt.Sprintf("/%d", b.Allowed)
		}
		text = append(text, one)
	}
	slices.Sort(text[1:])
	return strings.Join(text, " ")
}

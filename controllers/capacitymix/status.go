// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/apply"
	"berth.dev/berth/controllers/board"
	"berth.dev/berth/internal/fallback"
	"berth.dev/berth/internal/rebalance"
)

// compose returns the status of a mix from what is wrong with its spec, the
// workloads that it governs, and the names of other mixes that govern pods which
// it selects. It is a pure function; times are those at which things were first seen, so the same state
// gives the same status.
func compose(cm *v1alpha1.CapacityMix, invalid error, mine []board.Entry, others []string, now time.Time) v1alpha1.CapacityMixStatus {
	s := v1alpha1.CapacityMixStatus{ObservedGeneration: cm.Generation, Conditions: slices.Clone(cm.Status.Conditions)}
	slices.SortFunc(mine, byNeed)
	s.WorkloadCount = number(len(mine))
	desired, actual := &v1alpha1.ReplicaSplit{}, &v1alpha1.ReplicaSplit{}
	for i := range mine {
		w := workload(&mine[i])
		if mine[i].Group.Satisfied() {
			s.SatisfiedCount++
		}
		if len(s.Workloads) < v1alpha1.MaxStatusWorkloads {
			s.Workloads = append(s.Workloads, w)
		}
		plus(desired, w.Desired)
		plus(actual, w.Actual)
	}
	s.Desired, s.Actual = desired, actual
	conditions := []metav1.Condition{accepted(invalid, others), satisfied(mine), rebalancing(mine)}
	if c, ok := spotAvailable(mine); ok {
		conditions = append(conditions, c)
	} else if meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionSpotAvailable) != nil { // removing copies the list, there or not
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionSpotAvailable)
	}
	for _, c := range conditions {
		c.ObservedGeneration = cm.Generation
		c.LastTransitionTime = metav1.NewTime(now)
		c.Message = apply.Shorten(c.Message, 1024)
		meta.SetStatusCondition(&s.Conditions, c)
	}
	return s
}

// byNeed sorts those out of their mix first, then by name.
func byNeed(a, b board.Entry) int {
	needs := func(e *board.Entry) int {
		if e.Group.Satisfied() && e.WrongSince.IsZero() {
			return 1
		}
		return 0
	}
	v, w := a.Group.Workload, b.Group.Workload
	return cmp.Or(cmp.Compare(needs(&a), needs(&b)), cmp.Compare(v.Kind, w.Kind), cmp.Compare(v.Name, w.Name), cmp.Compare(v.Revision, w.Revision), cmp.Compare(a.Group.Key.ID, b.Group.Key.ID))
}

func plus(sum *v1alpha1.ReplicaSplit, s v1alpha1.ReplicaSplit) {
	sum.Spot += s.Spot
	sum.OnDemand += s.OnDemand
	sum.Unknown += s.Unknown
}

// workload says how one workload stands.
func workload(e *board.Entry) v1alpha1.WorkloadMix {
	g := &e.Group
	m, c := g.Policy.Mix, g.Actual()
	pending, departing, _ := g.Counts()
	w := v1alpha1.WorkloadMix{
		Kind: apply.Shorten(g.Workload.Kind, 63), Name: g.Workload.Name, Revision: g.Workload.Revision, Replicas: number(g.Replicas),
		Desired:  v1alpha1.ReplicaSplit{Spot: number(m.Spot(g.Replicas)), OnDemand: number(m.OnDemand(g.Replicas))},
		Actual:   v1alpha1.ReplicaSplit{Spot: number(c.Spot), OnDemand: number(c.OnDemand), Unknown: number(c.Unknown)},
		Borrowed: number(g.Borrowed()), Pending: number(pending), Departing: number(departing),
		OutOfMixSince: timeOf(e.WrongSince), FailedMoves: e.Failures, RetryTime: timeOf(e.RetryAt),
	}
	if reason, message := blocked(e); reason != "" {
		w.Blocked = &v1alpha1.BlockedMove{Reason: string(reason), Message: apply.Shorten(message, 1024)}
	}
	return w
}

// number is a count of replicas as the API has it.
func number(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

// blocked is what keeps a workload from its mix, "" if nothing does.
func blocked(e *board.Entry) (rebalance.Reason, string) {
	switch {
	case e.Verdict.Reason == rebalance.ReasonOnTarget || e.Verdict.Reason == rebalance.ReasonMove || e.Verdict.Reason == "":
		return "", ""
	case len(e.Moves)+len(e.Placeholders) > 0:
		return "", "" // it is not blocked, it is at work
	}
	return e.Verdict.Reason, e.Verdict.Message
}

// timeOf drops what a status does not keep, so that what was written compares equal.
func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	at := metav1.NewTime(t.Truncate(time.Second))
	return &at
}

// accepted says whether the mix governs the pods that it selects.
func accepted(invalid error, others []string) metav1.Condition {
	if invalid != nil {
		return metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInvalid, Message: invalid.Error()}
	}
	if len(others) > 0 {
		return metav1.Condition{
			Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonConflict,
			Message: fmt.Sprintf("pods that this mix selects are governed by an older one: %s", strings.Join(others, ", ")),
		}
	}
	return metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAccepted, Message: "the pods that this mix selects follow it"}
}

// satisfied says whether all workloads have exactly their mix.
func satisfied(mine []board.Entry) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionSatisfied, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonExact, Message: fmt.Sprintf("all %d workloads have exactly their mix", len(mine))}
	if len(mine) == 0 {
		c.Reason, c.Message = v1alpha1.ReasonNoWorkloads, "the mix governs no pods"
		return c
	}
	var out []string
	for i := range mine {
		g := &mine[i].Group
		if g.Satisfied() {
			continue
		}
		a, m := g.Actual(), g.Policy.Mix
		text := fmt.Sprintf("%s has %d spot / %d on-demand, wants %d / %d", g.Workload, a.Spot, a.OnDemand, m.Spot(g.Replicas), m.OnDemand(g.Replicas))
		if a.Unknown > 0 {
			text += fmt.Sprintf(", %d on nodes of unknown type", a.Unknown)
		}
		out = append(out, text)
	}
	if len(out) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonOutOfMix
		c.Message = fmt.Sprintf("%d of %d workloads: %s", len(out), len(mine), strings.Join(out[:min(len(out), 3)], "; "))
	}
	return c
}

// spotAvailable says whether replicas run on on-demand since spot nodes did not
// come. ok is false where that cannot be: without the gate they borrow.
func spotAvailable(mine []board.Entry) (c metav1.Condition, ok bool) {
	newest, replicas := fallback.Mark{}, 0
	for i := range mine {
		m, n := rebalance.FellBack(&mine[i].Group)
		if m.Later(newest) {
			newest = m
		}
		replicas += n
		ok = ok || n > 0 || mine[i].Group.Gated
	}
	if replicas == 0 {
		return metav1.Condition{
			Type: v1alpha1.ConditionSpotAvailable, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonNoFallback,
			Message: "no replica is limited to on-demand for want of spot nodes",
		}, ok
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionSpotAvailable, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonFallback,
		Message: fmt.Sprintf("spot nodes did not come; replicas limited to on-demand: %d; spot is tried again from %s on", replicas, newest.RetryAt.Format(time.RFC3339)),
	}, ok
}

// rebalancing says whether replicas are on the move, and if not, why.
func rebalancing(mine []board.Entry) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionRebalancing, Status: metav1.ConditionFalse}
	var on []string
	for _, e := range mine {
		for _, m := range e.Moves {
			on = append(on, m.Name)
		}
	}
	if len(on) > 0 {
		slices.Sort(on)
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonMoving
		c.Message = fmt.Sprintf("%d on the move: %s", len(on), strings.Join(on[:min(len(on), 5)], ", "))
		return c
	}
	if next := provisioning(mine); len(next) > 0 {
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonProvisioning
		c.Message = fmt.Sprintf("%d to move once a placeholder holds their room: %s", len(next), strings.Join(next[:min(len(next), 5)], ", "))
		return c
	}
	for i := range mine {
		if reason, message := blocked(&mine[i]); reason != "" {
			c.Reason, c.Message = string(reason), fmt.Sprintf("%s: %s", mine[i].Group.Workload, message)
			return c
		}
	}
	c.Reason, c.Message = idle(mine)
	return c
}

// provisioning names the replicas for which placeholders hold room or ask for it.
func provisioning(mine []board.Entry) (list []string) {
	for _, e := range mine {
		for _, h := range e.Placeholders {
			state := "waits for a node of type " + h.Target.String()
			if h.Running {
				state = "runs"
			}
			if h.Waits != "" {
				state += "; " + h.Waits
			}
			list = append(list, fmt.Sprintf("%s (%s %s)", h.ReplicaName, h.Name, state))
		}
	}
	slices.Sort(list)
	return list
}

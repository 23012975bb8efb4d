// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/autoscaler"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/fallback"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

// What a status holds of the names that tenants write. The owner references of pods hold names and kinds of any length.
const (
	maxKind, maxName, maxMessage = 63, 253, 1024
	// listed is how many names a message has, and named how many workloads the message of Satisfied describes.
	listed, named = 5, 3
)

// compose returns the status of a mix from what is wrong with its spec, the workloads that it governs, the names of other
// mixes that govern pods which it selects, the autoscalers, and the workloads whose deletion costs are late to be restored. Until
// autoscalers were looked for, the conditions about them stay.
// It is a pure function; times are those at which things were first seen, so the same state gives the same status.
func compose(
	cm *v1alpha1.CapacityMix, invalid error, mine []rebalance.Entry, others []string, found *autoscaler.Found,
	late map[governing.GroupKey]bool, now time.Time,
) v1alpha1.CapacityMixStatus {
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
	optional := func(c metav1.Condition, applies bool) {
		if applies {
			conditions = append(conditions, c)
		} else if meta.FindStatusCondition(s.Conditions, c.Type) != nil { // removing copies the list, there or not
			meta.RemoveStatusCondition(&s.Conditions, c.Type)
		}
	}
	optional(spotAvailable(mine))
	optional(topologySpreadHeld(mine))
	optional(scaleDownExact(mine))
	optional(groupsOfOne(mine))
	optional(pinned(mine))
	if found != nil {
		optional(gatesConfigured(found, mine))
		optional(deletionCostsIntact(cm, found, mine, late))
	}
	for _, c := range conditions {
		set(&s, cm, c, now)
	}
	return s
}

// set adds or replaces a condition.
func set(s *v1alpha1.CapacityMixStatus, cm *v1alpha1.CapacityMix, c metav1.Condition, now time.Time) {
	c.ObservedGeneration = cm.Generation
	c.LastTransitionTime = metav1.NewTime(now)
	c.Message = applyset.Shorten(c.Message, maxMessage)
	meta.SetStatusCondition(&s.Conditions, c)
}

// byNeed sorts those out of their mix first, then by name.
func byNeed(a, b rebalance.Entry) int {
	needs := func(e *rebalance.Entry) int {
		if e.Group.Satisfied() && e.WrongSince.IsZero() {
			return 1
		}
		return 0
	}
	v, w := a.Group.Workload, b.Group.Workload
	return cmp.Or(cmp.Compare(needs(&a), needs(&b)), cmp.Compare(v.Kind, w.Kind), cmp.Compare(v.Name, w.Name),
		cmp.Compare(v.Revision, w.Revision), cmp.Compare(a.Group.Key.ID, b.Group.Key.ID))
}

func plus(sum *v1alpha1.ReplicaSplit, s v1alpha1.ReplicaSplit) {
	sum.Spot = number(int(sum.Spot) + int(s.Spot))
	sum.OnDemand = number(int(sum.OnDemand) + int(s.OnDemand))
	sum.Unknown = number(int(sum.Unknown) + int(s.Unknown))
}

// workload is the status of one workload.
func workload(e *rebalance.Entry) v1alpha1.WorkloadMix {
	g := &e.Group
	m, c := g.Governing.Mix, g.Actual()
	pending, departing, _ := g.Counts()
	name := shortened(g.Workload)
	w := v1alpha1.WorkloadMix{
		Kind: name.Kind, Name: name.Name, Revision: name.Revision,
		Replicas: number(g.Replicas),
		Desired:  v1alpha1.ReplicaSplit{Spot: number(m.Spot(g.Replicas)), OnDemand: number(m.OnDemand(g.Replicas))},
		Actual:   v1alpha1.ReplicaSplit{Spot: number(c.Spot), OnDemand: number(c.OnDemand), Unknown: number(c.Unknown)},
		Borrowed: number(g.Borrowed()), Pending: number(pending), Departing: number(departing),
		MixNotSatisfiedSince: timeOf(e.WrongSince), FailedMoves: e.Failures, RetryTime: timeOf(e.RetryAt),
	}
	parts(&w, g)
	if reason, message := blocked(e); reason != "" {
		w.Blocked = &v1alpha1.BlockedMove{Reason: reason, Message: applyset.Shorten(message, maxMessage)}
	}
	return w
}

// nameOf names the group of a workload in messages, with its role if it has one.
func nameOf(g *clusterstate.Group) string {
	name := shortened(g.Workload).String()
	if role := g.Governing.RoleName; role != "" {
		name += " role " + role
	}
	return name
}

// shortened bounds the names of a workload.
func shortened(w clusterstate.Workload) clusterstate.Workload {
	w.Kind, w.Name, w.Revision = applyset.Shorten(w.Kind, maxKind), applyset.Shorten(w.Name, maxName), applyset.Shorten(w.Revision, maxName)
	return w
}

// some joins the first names of a list, and counts the others.
func some(names []string) string {
	text := strings.Join(names[:min(len(names), listed)], ", ")
	if more := len(names) - listed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// number is a count of replicas as the API has it.
func number(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

// blocked is what keeps a workload from its mix, "" if nothing does.
func blocked(e *rebalance.Entry) (reason, message string) {
	switch {
	case e.Verdict.Reason == rebalance.ReasonOnTarget || e.Verdict.Reason == rebalance.ReasonMove:
		return "", ""
	case moving(e)+len(e.Placeholders) > 0:
		return "", "" // it is not blocked, it is at work
	}
	return e.Verdict.Reason.String(), e.Verdict.Message
}

// moving counts the replicas of a workload that were evicted and are about to be
// replaced: an owner that has ended replaces none.
func moving(e *rebalance.Entry) int {
	if e.Group.Ended {
		return 0
	}
	return len(e.Moves)
}

// timeOf drops what a status does not keep, so that what was written compares equal.
func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	at := metav1.NewTime(t.Truncate(time.Second))
	return &at
}

func condition(kind string, status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// errTooMany is why a valid mix governs nothing.
var errTooMany = errors.New(budget.Exceeded("CapacityMixes", governing.MaxPerNamespace))

// accepted reports whether the mix governs the pods that it selects.
func accepted(invalid error, others []string) metav1.Condition {
	switch {
	case errors.Is(invalid, errTooMany):
		return condition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonTooMany, "%v", invalid)
	case invalid != nil:
		return condition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalid, "%v", invalid)
	case len(others) > 0:
		return condition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonConflict,
			"pods that this mix selects are governed by an older one: %s", some(others))
	}
	return condition(v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted,
		"the pods that this mix selects follow it")
}

// satisfied reports whether all workloads have exactly their mix.
func satisfied(mine []rebalance.Entry) metav1.Condition {
	have := "have exactly their mix"
	if len(mine) == 1 {
		have = "has exactly its mix"
	}
	c := condition(v1alpha1.ConditionSatisfied, metav1.ConditionTrue, v1alpha1.ReasonExact,
		"%s %s", display.All(len(mine), "workload"), have)
	if len(mine) == 0 {
		c.Reason, c.Message = v1alpha1.ReasonNoWorkloads, "the mix governs no pods"
		return c
	}
	var text []string
	out := 0
	for i := range mine {
		g := &mine[i].Group
		if g.Satisfied() {
			continue
		}
		if out++; out > named {
			continue
		}
		a, m := g.Actual(), g.Governing.Mix
		one := fmt.Sprintf("%s has %d spot / %d on-demand, desired %d / %d", nameOf(g), a.Spot, a.OnDemand, m.Spot(g.Replicas),
			m.OnDemand(g.Replicas))
		if a.Unknown > 0 {
			one += fmt.Sprintf(", %d on nodes of unknown type", a.Unknown)
		}
		text = append(text, one)
	}
	if out > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonMixNotSatisfied
		c.Message = fmt.Sprintf("%d of %s: %s", out, display.Count(len(mine), "workload"), strings.Join(text, "; "))
	}
	return c
}

// topologySpreadHeld names the workloads whose hard topology spread holds for each capacity type on its own: a pod selects the type
// of its slot once its gate is removed. ok is false where there is none.
func topologySpreadHeld(mine []rebalance.Entry) (c metav1.Condition, ok bool) {
	names := namesOf(mine, (*clusterstate.Group).SpreadsByType)
	return condition(v1alpha1.ConditionTopologySpreadHeld, metav1.ConditionFalse, v1alpha1.ReasonSpreadByCapacityType,
		"a topology spread constraint holds for each capacity type on its own, because its nodeAffinityPolicy is not Ignore; "+
			"workloads: %d of %d: %s",
		len(names), len(mine), some(names)), len(names) > 0
}

// spotAvailable reports whether replicas run on on-demand since spot nodes did not
// come. ok is false where that cannot be: without the gate they borrow.
func spotAvailable(mine []rebalance.Entry) (c metav1.Condition, ok bool) {
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
		return condition(v1alpha1.ConditionSpotAvailable, metav1.ConditionTrue, v1alpha1.ReasonNoFallback,
			"no replica is limited to on-demand because spot nodes are missing"), ok
	}
	return condition(v1alpha1.ConditionSpotAvailable, metav1.ConditionFalse, v1alpha1.ReasonFallback,
		"spot nodes did not come; replicas limited to on-demand: %d; spot is tried again from %s on", replicas,
		newest.RetryAt.Format(time.RFC3339)), ok
}

// rebalancing reports whether replicas are being moved, and if not, why.
func rebalancing(mine []rebalance.Entry) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionRebalancing, Status: metav1.ConditionFalse}
	var on []string
	for i := range mine {
		for _, m := range mine[i].Moves[:moving(&mine[i])] {
			on = append(on, m.Name)
		}
	}
	if len(on) > 0 {
		slices.Sort(on)
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonMoving
		c.Message = fmt.Sprintf("%d being moved: %s", len(on), some(on))
		return c
	}
	if next := provisioning(mine); len(next) > 0 {
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonProvisioning
		c.Message = fmt.Sprintf("%d to move once a placeholder holds the capacity: %s", len(next), some(next))
		return c
	}
	for i := range mine {
		if reason, message := blocked(&mine[i]); reason != "" {
			c.Reason, c.Message = reason, fmt.Sprintf("%s: %s", nameOf(&mine[i].Group), message)
			return c
		}
	}
	c.Reason, c.Message = idle(mine)
	return c
}

// provisioning names the replicas for which placeholders hold capacity or request it.
func provisioning(mine []rebalance.Entry) (list []string) {
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

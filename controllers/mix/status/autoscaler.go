// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/autoscaler"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

const (
	// findTimeout bounds the requests that find autoscalers.
	findTimeout = 5 * time.Second
	// lasting is how long a condition must have been True for a second event when it becomes False. Karpenter overwrites the
	// costs of new pods within a minute or some, so each rollout makes the costs right for a moment.
	lasting = time.Hour
)

// findAutoscalers reads again and again which autoscalers launch nodes, until the context ends. It runs on the leader.
func (r *Controller) findAutoscalers(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, findTimeout)
		defer cancel()
		found, err := autoscaler.Find(ctx, r.Kube)
		if err != nil {
			log.FromContext(ctx).Error(err, "Cannot determine which autoscalers launch nodes")
			return
		}
		if r.setFound(found) {
			log.FromContext(ctx).Info("Determined which autoscalers launch nodes", "autoscalers", found.String())
		}
	}, r.FindAutoscalersEvery)
	return nil
}

// setFound notes the autoscalers. If they have changed, no mix has the status that it should have, so the next reconcile of
// everything composes all again. Once there is an autoscaler, every workload may exchange slots.
func (r *Controller) setFound(found autoscaler.Found) (changed bool) {
	changed, first := r.replaceFound(found)
	if first {
		r.packAll()
	}
	return changed
}

// replaceFound also returns whether these autoscalers are the first ones.
func (r *Controller) replaceFound(found autoscaler.Found) (changed, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.found != nil && *r.found == found {
		return false, false
	}
	first = found.Any() && (r.found == nil || !r.found.Any())
	r.found = &found
	clear(r.current)
	return true, first
}

// autoscalers returns what was found last, nil if nothing was read yet.
func (r *Controller) autoscalers() *autoscaler.Found {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.found
}

// gatesConfigured reports whether autoscalers can evaluate the mix. ok is false where none was found.
func gatesConfigured(found *autoscaler.Found, mine []rebalance.Entry) (c metav1.Condition, ok bool) {
	names := namesOf(mine, (*clusterstate.Group).Ungated)
	if len(names) == 0 {
		return condition(v1alpha1.ConditionGatesConfigured, metav1.ConditionTrue, v1alpha1.ReasonPodsGated,
			"no workload creates pods without the scheduling gate for which %s launches nodes", found), found.Any()
	}
	return condition(v1alpha1.ConditionGatesConfigured, metav1.ConditionFalse, v1alpha1.ReasonPodsWithoutGate,
		"%s cannot evaluate the mix, because pods have no scheduling gate; workloads: %d of %d: %s", found, len(names), len(mine),
		some(names)), found.Any()
}

// deletionCostsIntact reports whether the deletion costs are those of the slots, or chosen by users. ok is false where no one
// overwrites them, and where the mix leaves them to others. Late are the workloads whose costs are not restored for some time: until one
// is, the condition stays True, and then False until all costs are restored. The message has no numbers, because Karpenter writes one
// pod after the other.
func deletionCostsIntact(
	cm *v1alpha1.CapacityMix, found *autoscaler.Found, mine []rebalance.Entry, late map[governing.GroupKey]bool,
) (c metav1.Condition, ok bool) {
	ok = found.Karpenter && cm.Spec.DeletionCost != v1alpha1.DeletionCostsRespect
	overwritten := func(g *clusterstate.Group) bool { return g.Overwritten() > 0 }
	names := namesOf(mine, func(g *clusterstate.Group) bool { return late[g.Key] && overwritten(g) })
	was := meta.FindStatusCondition(cm.Status.Conditions, v1alpha1.ConditionDeletionCostsIntact)
	switch {
	case len(names) > 0:
	case isFalse(was) && len(namesOf(mine, overwritten)) > 0:
		return *was, ok
	default:
		return condition(v1alpha1.ConditionDeletionCostsIntact, metav1.ConditionTrue, v1alpha1.ReasonNotOverwritten,
			"the deletion costs of the slots are not overwritten, or restored within a minute"), ok
	}
	return condition(v1alpha1.ConditionDeletionCostsIntact, metav1.ConditionFalse, v1alpha1.ReasonOverwritten,
		"another client has overwritten the deletion costs of replicas, so a scale-down does not remove the highest slots first until "+
			"Berth has restored them; workloads: %s", firstOf(names)), ok
}

// firstOf joins the first names of a list.
func firstOf(names []string) string {
	text := strings.Join(names[:min(len(names), listed)], ", ")
	if len(names) > listed {
		text += " and others"
	}
	return text
}

// scaleDownExact names the workloads whose scale-down can leave the mix, because the mix leaves the deletion costs to other clients. ok is
// false where there is none.
func scaleDownExact(mine []rebalance.Entry) (c metav1.Condition, ok bool) {
	names := namesOf(mine, (*clusterstate.Group).ScalesDownByOthers)
	return condition(v1alpha1.ConditionScaleDownExact, metav1.ConditionFalse, v1alpha1.ReasonDeletionCostsRespected,
		"a scale-down can leave the mix until rebalancing repairs it, because deletionCost is Respect; set it to Enforce for exact "+
			"scale-downs; workloads: %d of %d: %s", len(names), len(mine), some(names)), len(names) > 0
}

// namesOf names the workloads that match, sorted.
func namesOf(mine []rebalance.Entry, match func(*clusterstate.Group) bool) (names []string) {
	for i := range mine {
		if g := &mine[i].Group; match(g) {
			names = append(names, nameOf(g))
		}
	}
	slices.Sort(names)
	return names
}

// warnings are the conditions about which an event is recorded when they become False. One that toggles becomes False again and again for
// the same cause.
var warnings = []struct {
	condition, event string
	toggles          bool
}{
	{v1alpha1.ConditionGatesConfigured, v1alpha1.EventReasonGatesMissing, false},
	{v1alpha1.ConditionDeletionCostsIntact, v1alpha1.EventReasonDeletionCostsOverwritten, true},
}

// warning is a condition of a mix.
type warning struct {
	mix       types.UID
	condition string
}

// warn records an event about each condition of a mix that has become False. The mix has the conditions that it had before.
func (r *Controller) warn(cm *v1alpha1.CapacityMix, now []metav1.Condition) {
	leads := r.leadsSince()
	for _, w := range warnings {
		was, is := meta.FindStatusCondition(cm.Status.Conditions, w.condition), meta.FindStatusCondition(now, w.condition)
		key := warning{cm.UID, w.condition}
		_, before := r.warned.Get(key)
		// An earlier leader may have recorded what was True for a short time only.
		before = before || w.toggles && was != nil && was.LastTransitionTime.Time.Before(leads)
		if turned(was, is, before) {
			r.Recorder.Event(cm, corev1.EventTypeWarning, w.event, strings.ToUpper(is.Message[:1])+is.Message[1:])
		}
		if isFalse(was) || isFalse(is) { // what an earlier leader wrote counts too
			r.warned.Add(key, nil)
		}
	}
}

// leadsSince returns since when this process leads, in whole seconds as the times of conditions.
func (r *Controller) leadsSince() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leads.IsZero() {
		r.leads = r.Clock.Now().Truncate(time.Second)
	}
	return r.leads
}

// turned reports whether a condition that has become False is news: no event was recorded about it before, or it has been
// True for long since. It is a pure function.
func turned(was, is *metav1.Condition, before bool) bool {
	if !isFalse(is) || isFalse(was) {
		return false
	}
	return !before || was != nil && is.LastTransitionTime.Sub(was.LastTransitionTime.Time) >= lasting
}

func isFalse(c *metav1.Condition) bool { return c != nil && c.Status == metav1.ConditionFalse }

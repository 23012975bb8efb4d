// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/limits/registry"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/rebalance"
)

func (p *patient) nodes(r *Report) {
	const check = "node types"
	var unknown []string
	for _, n := range p.cluster.State.Nodes() {
		if n.Type == capacity.Unknown {
			unknown = append(unknown, n.Name)
		}
	}
	slices.Sort(unknown)
	switch all := len(p.cluster.Nodes); {
	case p.cluster.Missing("nodes"):
	case all == 0:
		r.add(Warn, check, "add nodes", "the cluster has no nodes")
	case len(unknown) == all:
		r.add(Fail, check, overview.UnknownTypeHint, "all nodes are of unknown type (%s)", printers.Listed(unknown))
	case len(unknown) > 0:
		r.add(Warn, check, "kubectl berth nodes --unknown: "+overview.UnknownTypeHint, "%d of %d nodes are of unknown type (%s)", len(unknown),
			all, printers.Listed(unknown))
	default:
		f := p.cluster.State
		r.add(OK, check, "", "%s, all of known type: %d spot and %d on-demand, not counting departing nodes", printers.Count(all, "node"),
			f.Count(capacity.Spot), f.Count(capacity.OnDemand))
	}
}

// mixes finds those that cannot be used.
func (p *patient) mixes(r *Report) {
	const check = "mixes"
	var bad []string
	for _, m := range p.cluster.Mixes {
		key := client.ObjectKeyFromObject(m)
		err := p.cluster.Invalid[key]
		if err == nil {
			_, err = rebalance.Settings{}.For(nil, m)
		}
		if err != nil {
			bad = append(bad, fmt.Sprintf("%s: %v", key, err))
		}
	}
	if len(bad) > 0 {
		r.add(Fail, check, "correct the spec of the mix", "cannot be used: %s", strings.Join(bad, "; "))
		return
	}
	r.add(OK, check, "", "CapacityMixes: %d, all valid", len(p.cluster.Mixes))
}

// conflicts finds mixes that select pods of an older one.
func (p *patient) conflicts(r *Report) {
	const check = "conflicts"
	lost := map[string]int{}
	for _, m := range p.cluster.Mixes {
		_, selector, err := governing.FromCapacityMix(m)
		if err != nil {
			continue
		}
		for _, pod := range p.selected(m, selector) {
			winner := p.cluster.Store.Match(m.Namespace, pod.Labels)
			if winner != nil && winner.Source != governing.SourceCapacityMix+m.Name {
				lost[fmt.Sprintf("%s/%s selects pods that the older %s governs", m.Namespace, m.Name,
					strings.TrimPrefix(winner.Source, governing.SourceCapacityMix))]++
			}
		}
	}
	if len(lost) == 0 {
		r.add(OK, check, "", "no pod is selected by two mixes")
		return
	}
	var lines []string
	for line, pods := range lost {
		lines = append(lines, fmt.Sprintf("%s (%s)", line, printers.Count(pods, "pod")))
	}
	slices.Sort(lines)
	r.add(Warn, check, "make one of the selectors narrower", "%s", strings.Join(lines, "; "))
}

// selected are the live pods of a mix's namespace that its selector selects.
func (p *patient) selected(m *v1alpha1.CapacityMix, selector labels.Selector) []*clusterstate.Pod {
	var out []*clusterstate.Pod
	for o, pod := range p.cluster.LivePods() {
		if o.Namespace == m.Namespace && governing.Governable(o) && selector.Matches(labels.Set(o.Labels)) {
			out = append(out, pod)
		}
	}
	return out
}

// bypasses finds governed pods that another scheduler places.
func (p *patient) bypasses(r *Report) {
	const check = "scheduler names"
	var bypass []string
	for o, pod := range p.cluster.LivePods() {
		if pod.UsesGate || p.cluster.Berths(pod.SchedulerName) {
			continue
		}
		if found, _ := p.cluster.State.Resolve(pod); found != nil {
			bypass = append(bypass, podName(o)+" ("+pod.SchedulerName+")")
		}
	}
	if len(bypass) == 0 {
		r.add(OK, check, "", "every governed pod has the scheduling gate, or uses a scheduler that applies the mix")
		return
	}
	slices.Sort(bypass)
	r.add(Warn, check, "set schedulerName: "+p.cluster.Profile.SchedulerNames[0]+" in the pod template",
		"%s scheduled without the mix: %s", printers.Count(len(bypass), "governed pod"), printers.Listed(bypass))
}

// budgets finds governed pods that no eviction can move.
func (p *patient) budgets(r *Report) {
	const check = "disruption budgets"
	overlapping := map[string]string{}
	never := map[string]bool{}
	for _, namespace := range p.cluster.Namespaces() {
		for _, g := range p.cluster.State.Groups(namespace) {
			for _, s := range g.Assignments {
				budgets := p.cluster.Budgets[namespace]
				if v := rebalance.Disruptable(budgets, s.Pod.Labels, true); v.Reason == rebalance.ReasonOverlappingPDBs {
					overlapping["namespace "+namespace+", "+overview.GroupText(&g)] = v.Message
				}
				for _, b := range budgets {
					if b.Never() && !b.Floor && b.Selects(s.Pod.Labels) { // that of a floor allows none at the floor
						never[fmt.Sprintf("PodDisruptionBudget %s/%s allows no disruption: it requires %d healthy pods of %d", namespace, b.Name,
							b.Desired, b.Expected)] = true
					}
				}
			}
		}
	}
	for _, workload := range slices.Sorted(maps.Keys(overlapping)) {
		r.add(Warn, check, "change the selectors so that one PodDisruptionBudget selects the pod", "%s: cannot be rebalanced: %s",
			workload, overlapping[workload])
	}
	for _, message := range slices.Sorted(maps.Keys(never)) {
		r.add(Warn, check, "allow at least one disruption", "%s", message)
	}
	if len(overlapping)+len(never) == 0 {
		r.add(OK, check, "", "no governed pod is in two PodDisruptionBudgets, or in one that never allows a disruption")
	}
}

// reports finds mixes that no controller keeps the status of.
func (p *patient) reports(r *Report) {
	const check = "mix status"
	var without []string
	for _, m := range p.cluster.Mixes {
		if overview.ReportOf(m) != display.ReportCurrent {
			without = append(without, m.Namespace+"/"+m.Name)
		}
	}
	if len(without) > 0 {
		r.add(Warn, check, "check that berth-controller runs", "no current status in %s", printers.Listed(without))
		return
	}
	r.add(OK, check, "", "every mix has a current status")
}

// floors finds mixes whose floor the controller does not protect.
func (p *patient) floors(r *Report) {
	const check = "protected floors"
	protected := 0
	var bad []unmet
	for _, m := range p.cluster.Mixes {
		if m.Spec.ProtectFloor {
			protected++
			bad = unmetOf(bad, m, m.Status.Conditions, v1alpha1.ConditionFloorProtected)
		}
	}
	if len(bad) == 0 {
		r.add(OK, check, "", "CapacityMixes with protectFloor: %d, none with FloorProtected=False", protected)
		return
	}
	r.addUnmet(check, bad, "kubectl describe capacitymixes -A", func(unmet) string {
		return "follow the message of the condition FloorProtected"
	})
}

// gateTakesLong is more than a scheduler that leads needs to release a gate.
const gateTakesLong = time.Minute

// gatedPods are those with the scheduling gate that have a finding.
type gatedPods struct {
	// waiting wait for their slot, long those that have for more than a minute.
	waiting, long []string
	// without have no mix, and the gate for nothing.
	without []string
}

func (p *patient) gatedPods() (g gatedPods) {
	for o, pod := range p.cluster.LivePods() {
		if pod.Gated && !pod.OtherGates {
			g.waiting = append(g.waiting, podName(o))
			if p.now.Sub(o.CreationTimestamp.Time) > gateTakesLong {
				g.long = append(g.long, podName(o))
			}
		}
		reason := o.Annotations[v1alpha1.UngateReasonAnnotation]
		if found, _ := p.cluster.State.Resolve(pod); found == nil && (pod.Gated || reason == v1alpha1.UngateReasonNoMix) {
			g.without = append(g.without, podName(o))
		}
	}
	for _, list := range [][]string{g.waiting, g.long, g.without} {
		slices.Sort(list)
	}
	return g
}

// gates finds pods that wait for a slot that no scheduler assigns, and pods that have the gate although no mix governs them.
func (p *patient) gates(r *Report) {
	const check = "scheduling gates"
	g, well := p.gatedPods(), true
	say := func(l Level, fix, format string, args ...any) {
		r.add(l, check, fix, format, args...)
		well = false
	}
	switch {
	case len(g.waiting) > 0 && p.leaderless:
		say(Fail, "start berth-scheduler; the controller releases the gate without a slot after gates.failOpenSeconds",
			"no scheduler is leading, so no slot is assigned to %s: %s", printers.Count(len(g.waiting),
				"gated pod"), printers.Listed(g.waiting))
	case len(g.long) > 0:
		say(Warn, "check the UngateFailed events of the pods and the log of berth-scheduler",
			"a scheduler is leading, but no slot has been assigned for more than a minute to %s: %s", printers.Count(len(g.long),
				"gated pod"), printers.Listed(g.long))
	}
	if len(g.without) > 0 && !p.cluster.Missing(overview.MixesResource) {
		say(Warn, "create a mix for them, or remove the gate "+v1alpha1.CapacityMixGate+" from the pod template", "no mix governs %s: %s",
			printers.Count(len(g.without), "gated pod"), printers.Listed(g.without))
	}
	if well {
		say(OK, "", "no gated pod waits too long for its slot")
	}
}

// limits finds ResourceLimits that cannot be used, and pods that theirs keeps waiting.
func (p *patient) limits(r *Report) {
	const check = "resource limits"
	if p.cluster.Missing(overview.LimitsResource) {
		return
	}
	var broken, waiting []string
	for _, l := range p.cluster.Limits {
		if err := registry.Compile(l).Err; err != nil {
			broken = append(broken, l.Namespace+"/"+l.Name+": "+err.Error())
		}
	}
	for pod := range p.cluster.LivePods() {
		if why := p.waitsForLimit(pod); why != "" {
			waiting = append(waiting, podName(pod)+": "+why)
		}
	}
	slices.Sort(broken)
	slices.Sort(waiting)
	if len(broken) > 0 {
		r.add(Fail, check, "correct the spec of the limit", "cannot be used: %s", strings.Join(broken, "; "))
	}
	if len(waiting) > 0 {
		verb := "wait"
		if len(waiting) == 1 {
			verb = "waits"
		}
		r.add(Warn, check, "create the limit, or give the pod another one (kubectl berth explain POD)",
			"%s %s because of a ResourceLimit: %s",
			printers.Count(len(waiting), "pod"), verb, printers.Listed(waiting))
	}
	if len(broken)+len(waiting) == 0 {
		r.add(OK, check, "", "ResourceLimits: %d, and no pod waits because of one", len(p.cluster.Limits))
	}
}

// waitsForLimit returns why a live pod waits because of its limit, "" if it does not.
func (p *patient) waitsForLimit(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return ""
	}
	found, enforced := p.cluster.LimitOf(pod)
	switch {
	case !enforced:
	case found.Missing != "":
		return registry.MissingReason(found.Missing)
	case found.Limit != nil:
		if excess := found.Limit.Exceeded(pod); len(excess) > 0 {
			return found.Limit.ExcessReason(excess)
		}
	}
	return ""
}

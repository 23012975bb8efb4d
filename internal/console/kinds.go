// SPDX-License-Identifier: Apache-2.0

package console

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/overview"
)

var mixList = listOf[*v1alpha1.CapacityMix]{
	id: "mixes", title: "Capacity mixes", kind: "CapacityMix", noun: "capacity mix", resource: overview.MixesResource,
	of: func(r *overview.Reading) []*v1alpha1.CapacityMix { return r.Mixes }, columns: mixColumns, detailed: mixDetails,
	empty: `<h2>No capacity mix</h2><p>A CapacityMix divides the replicas of the pods that it selects between spot and on-demand nodes.</p>`,
}

var policyList = listOf[*v1alpha1.SchedulingPolicy]{
	id: "policies", title: "Scheduling policies", kind: "SchedulingPolicy", noun: "scheduling policy", resource: overview.PoliciesResource,
	of:      func(r *overview.Reading) []*v1alpha1.SchedulingPolicy { return r.Policies },
	columns: policyColumns, detailed: policyDetails,
	empty: `<h2>No scheduling policy</h2><p>A SchedulingPolicy scores nodes for the pods that it selects, and records how they were placed.</p>`,
}

var reservationList = listOf[*v1alpha1.Reservation]{
	id: "reservations", title: "Reservations", kind: "Reservation", noun: "reservation", resource: overview.ReservationsResource,
	of:      func(r *overview.Reading) []*v1alpha1.Reservation { return r.Reservations },
	columns: reservationColumns, detailed: reservationDetails,
	empty: `<h2>No reservation</h2><p>A Reservation holds capacity on nodes for pods that come later.</p>`,
}

// details are what the page of an object shows. All texts in them are inert.
type details struct {
	Facts []labelled
	// Links lead to other pages of the object.
	Links      []link
	Conditions []conditionView
	// parts are tables below, and above is what precedes all.
	parts, above []*part
}

// fact adds a fact that is not empty.
func (d *details) fact(label string, v value) {
	if v.Text != "" || v.Time != "" {
		d.Facts = append(d.Facts, labelled{value: v, Label: label})
	}
}

// nameColumn has the name of an object and its namespace.
func nameColumn[T client.Object](label, id string) column[T] {
	return column[T]{"name", label, false, func(o T) value {
		v := linkValue(o.GetName(), objectURL(id, o.GetNamespace(), o.GetName()))
		v.Note = inert(o.GetNamespace())
		return v
	}}
}

func ageColumn[T client.Object](s *state) column[T] {
	return column[T]{"age", "Created", true, func(o T) value { return timeValue(s.at, o.GetCreationTimestamp()) }}
}

// selectorText is a selector in words.
func selectorText(s *v1alpha1.PodSelector) string {
	if s == nil {
		return ""
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		all = append(all, key+"="+s.MatchLabels[key])
	}
	for i := range s.MatchExpressions {
		r := &s.MatchExpressions[i]
		all = append(all, strings.TrimSpace(r.Key+" "+string(r.Operator)+" "+strings.Join(r.Values, ", ")))
	}
	return inert(cmp.Or(strings.Join(all, ", "), "all pods of the namespace"))
}

// conditionValue is whether an object is as it should be: a condition that must be True.
func conditionValue(all []metav1.Condition, kind, word string) value {
	c := meta.FindStatusCondition(all, kind)
	switch {
	case c == nil:
		return value{Text: "not reported", Class: "dim", Plain: true}
	case c.Status == metav1.ConditionTrue:
		return badgeValue(word, "ok")
	case c.Status == metav1.ConditionFalse:
		v := badgeValue(c.Reason, "bad")
		v.Note = inert(c.Message)
		return v
	}
	return badgeValue(c.Reason, "unknown")
}

func mixColumns(s *state) []column[*v1alpha1.CapacityMix] {
	type mix = *v1alpha1.CapacityMix
	counts := func(id, label string, of func(*v1alpha1.ReplicaSplit) int32) column[mix] {
		return column[mix]{id, label, true, func(m mix) value {
			if m.Status.Actual == nil || m.Status.Desired == nil {
				return value{Text: "?", order: -1}
			}
			actual, desired := of(m.Status.Actual), of(m.Status.Desired)
			return value{Text: fmt.Sprintf("%d/%d", actual, desired), order: int64(actual)}
		}}
	}
	return []column[mix]{
		nameColumn[mix]("Mix", "mixes"),
		{"selects", "Selects", false, func(m mix) value { return value{Text: selectorText(&m.Spec.Selector)} }},
		{"rule", "Mix of replicas", false, func(m mix) value { return textValue(overview.RuleOf(m)) }},
		{"workloads", "Workloads", true, func(m mix) value {
			return value{Text: fmt.Sprintf("%d/%d", m.Status.SatisfiedCount, m.Status.WorkloadCount), order: int64(m.Status.WorkloadCount)}
		}},
		counts("spot", "Spot", func(r *v1alpha1.ReplicaSplit) int32 { return r.Spot }),
		counts("on-demand", "On-demand", func(r *v1alpha1.ReplicaSplit) int32 { return r.OnDemand }),
		{"status", "Status", false, mixState},
		ageColumn[mix](s),
	}
}

// mixState is whether a mix governs pods and, if so, whether they satisfy it.
func mixState(m *v1alpha1.CapacityMix) value {
	if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionAccepted); c != nil && c.Status == metav1.ConditionFalse {
		return conditionValue(m.Status.Conditions, v1alpha1.ConditionAccepted, "")
	}
	return conditionValue(m.Status.Conditions, v1alpha1.ConditionSatisfied, "Satisfied")
}

func mixDetails(m *v1alpha1.CapacityMix, path string, q url.Values, s *state) *details {
	d := &details{Conditions: conditionViews(s, m.Status.Conditions)}
	if applied := appliedTo(m, q, s); applied != nil {
		d.above = append(d.above, applied)
	}
	d.fact("Status", mixState(m))
	d.fact("Mix of replicas", textValue(overview.RuleOf(m)))
	d.fact("Selects", value{Text: selectorText(&m.Spec.Selector)})
	d.fact("Group", textValue(string(m.Spec.Group)))
	d.fact("Without free spot capacity", textValue(string(m.Spec.WhenSpotUnavailable)))
	d.fact("Without free on-demand capacity", textValue(string(m.Spec.WhenOnDemandUnavailable)))
	if r := m.Spec.Rebalance; r != nil {
		d.fact("Moves", textValue(string(r.Mode)))
	}
	d.fact("Created", timeValue(s.at, m.CreationTimestamp))
	if s.plans {
		d.Links = append(d.Links, link{Name: "What if?", URL: path + "/plan"})
	}
	if s.reports {
		d.Links = append(d.Links, link{Name: "Moves and events", URL: "/workloads/" + url.PathEscape(m.Namespace) + "/CapacityMix/" + url.PathEscape(m.Name) + "/history"})
	}
	var governed []*overview.Workload
	for i := range s.Overview.Workloads {
		if w := &s.Overview.Workloads[i]; w.Namespace == m.Namespace && w.Source == governing.SourceCapacityMix+m.Name {
			governed = append(governed, w)
		}
	}
	l := workloadListing()
	l.unknown = s.podsOf(0).Unknown()
	d.parts = l.parts(path, q, governed)
	return d
}

// workloadListing lists the workloads of a mix.
func workloadListing() listing[*overview.Workload] {
	type workload = *overview.Workload
	return listing[workload]{
		id: "governed", label: "Workloads", noun: "workload", empty: "<p>It governs no pods.</p>",
		row: func(w workload) string { return strings.Join([]string{w.Kind, w.Name, w.Revision, w.Role, w.ID}, "/") },
		columns: []column[workload]{
			{"name", "Workload", false, func(w workload) value {
				v := linkValue(workloadName(w), workloadURL(w))
				v.Note = strings.TrimSpace(w.Revision + " " + w.Role)
				return v
			}},
			{"replicas", "Replicas", true, func(w workload) value { return numberValue(w.Replicas) }},
			{"slots", "Slots", false, func(w workload) value {
				return value{Text: "", HTML: render("ribbon", ribbonOf(w, ribbonSlots, true))}
			}},
			{"status", "Status", false, func(w workload) value {
				switch {
				case w.Satisfied.Is(true):
					return badgeValue("Satisfied", "ok")
				case w.Satisfied.Unknown():
					return badgeValue("Unknown", "unknown")
				}
				v := badgeValue(w.Reason, "bad")
				v.Note = w.Message
				return v
			}},
		},
	}
}

func policyColumns(s *state) []column[*v1alpha1.SchedulingPolicy] {
	type policy = *v1alpha1.SchedulingPolicy
	return []column[policy]{
		nameColumn[policy]("Policy", "policies"),
		{"selects", "Selects", false, func(p policy) value { return value{Text: selectorText(&p.Spec.PodSelector)} }},
		{"score", "Scores by", false, func(p policy) value { return textValue(scoreText(p.Spec.Score)) }},
		{"tie", "Tie-breaker", false, func(p policy) value { return textValue(string(tieBreaker(p))) }},
		{"records", "Records", false, func(p policy) value { return textValue(string(recordMode(p))) }},
		{"pods", "Pods", true, func(p policy) value { return numberValue(int(p.Status.PodCount)) }},
		{"status", "Status", false, func(p policy) value {
			return conditionValue(p.Status.Conditions, v1alpha1.ConditionAccepted, "Accepted")
		}},
		ageColumn[policy](s),
	}
}

func scoreText(r *v1alpha1.ScoreRules) string {
	if r == nil {
		return string(v1alpha1.ScorePresetBalanced)
	}
	var names []string
	for i := range r.Functions {
		names = append(names, string(r.Functions[i].Name))
	}
	return cmp.Or(strings.Join(names, ", "), string(cmp.Or(r.Preset, v1alpha1.ScorePresetBalanced)))
}

func tieBreaker(p *v1alpha1.SchedulingPolicy) v1alpha1.TieBreaker {
	if p.Spec.Select == nil {
		return v1alpha1.TieBreakerLeastLoaded
	}
	return cmp.Or(p.Spec.Select.TieBreaker, v1alpha1.TieBreakerLeastLoaded)
}

func recordMode(p *v1alpha1.SchedulingPolicy) v1alpha1.RecordMode {
	if p.Spec.Decisions == nil {
		return v1alpha1.RecordOnFailure
	}
	return cmp.Or(p.Spec.Decisions.Record, v1alpha1.RecordOnFailure)
}

func policyDetails(p *v1alpha1.SchedulingPolicy, path string, q url.Values, s *state) *details {
	d := &details{Conditions: conditionViews(s, p.Status.Conditions)}
	d.fact("Status", conditionValue(p.Status.Conditions, v1alpha1.ConditionAccepted, "Accepted"))
	d.fact("Selects", value{Text: selectorText(&p.Spec.PodSelector)})
	d.fact("Scores by", textValue(scoreText(p.Spec.Score)))
	d.fact("Tie-breaker", textValue(string(tieBreaker(p))))
	if b := p.Spec.Bind; b != nil {
		d.fact("Binds", textValue(string(b.Mode)))
	}
	d.fact("Records decisions", textValue(string(recordMode(p))))
	d.fact("Pods", numberValue(int(p.Status.PodCount)))
	d.fact("Created", timeValue(s.at, p.CreationTimestamp))
	l := listing[overview.PolicyWorkload]{
		id: "governed", label: "Workloads", noun: "workload", empty: "<p>It governs no pod that you may list.</p>",
		unknown: slices.Contains(s.Unread, "pods"),
		row:     func(w overview.PolicyWorkload) string { return w.Kind + "/" + w.Name },
		columns: []column[overview.PolicyWorkload]{
			{"name", "Workload", false, func(w overview.PolicyWorkload) value {
				return linkValue(w.Kind+"/"+w.Name, s.workloadLink(w.Namespace, w.Kind, w.Name))
			}},
			{"pods", "Pods", true, func(w overview.PolicyWorkload) value { return numberValue(w.Pods) }},
		},
	}
	d.parts = l.parts(path, q, s.Governed[[2]string{p.Namespace, p.Name}])
	return d
}

// workloadLink is the page of a workload, or of a pod alone, "" if it has none.
func (s *state) workloadLink(namespace, kind, name string) string {
	for i := range s.Overview.Workloads {
		if w := &s.Overview.Workloads[i]; w.Namespace == namespace && w.Kind == kind && w.Name == name {
			return workloadURL(w)
		}
	}
	if kind == "Pod" {
		return s.podURL(namespace, name)
	}
	return ""
}

func reservationColumns(s *state) []column[*v1alpha1.Reservation] {
	type reservation = *v1alpha1.Reservation
	return []column[reservation]{
		nameColumn[reservation]("Reservation", "reservations"),
		{"for", "For", false, func(r reservation) value { return textValue(reservedFor(r)) }},
		{"size", "Capacity of each", false, func(r reservation) value { return textValue(reservedSize(r)) }},
		{"replicas", "Pods", true, func(r reservation) value { return numberValue(int(replicasOf(r))) }},
		{"held", "Held", true, func(r reservation) value { return numberValue(int(r.Status.HeldCount)) }},
		{"used", "Used", true, func(r reservation) value { return numberValue(int(r.Status.UsedCount)) }},
		{"status", "Status", false, func(r reservation) value {
			return conditionValue(r.Status.Conditions, v1alpha1.ConditionReserved, "Reserved")
		}},
		{"expires", "Expires", true, func(r reservation) value { return expires(r, s) }},
	}
}

func reservedFor(r *v1alpha1.Reservation) string {
	if r.Spec.PodName != "" {
		return "pod " + r.Spec.PodName
	}
	return selectorText(r.Spec.PodSelector)
}

func reservedSize(r *v1alpha1.Reservation) string {
	var all []string
	if r.Spec.CPU != nil {
		all = append(all, r.Spec.CPU.String()+" CPU")
	}
	if r.Spec.Memory != nil {
		all = append(all, r.Spec.Memory.String()+" memory")
	}
	if r.Spec.EphemeralStorage != nil {
		all = append(all, r.Spec.EphemeralStorage.String()+" storage")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Spec.ExtendedResources)) {
		all = append(all, fmt.Sprintf("%d %s", r.Spec.ExtendedResources[name], name))
	}
	return strings.Join(all, ", ")
}

func replicasOf(r *v1alpha1.Reservation) int32 {
	if r.Spec.Replicas == nil {
		return 1
	}
	return *r.Spec.Replicas
}

func expires(r *v1alpha1.Reservation, s *state) value {
	if r.Status.ExpirationTime == nil {
		return value{}
	}
	return timeValue(s.at, *r.Status.ExpirationTime)
}

func reservationDetails(r *v1alpha1.Reservation, path string, q url.Values, s *state) *details {
	d := &details{Conditions: conditionViews(s, r.Status.Conditions)}
	d.fact("Status", conditionValue(r.Status.Conditions, v1alpha1.ConditionReserved, "Reserved"))
	d.fact("For", textValue(reservedFor(r)))
	d.fact("Capacity of each", textValue(reservedSize(r)))
	d.fact("Pods", numberValue(int(replicasOf(r))))
	d.fact("Held", numberValue(int(r.Status.HeldCount)))
	d.fact("Used", numberValue(int(r.Status.UsedCount)))
	d.fact("Only on node", linkValue(r.Spec.NodeName, nodeURL(s, r.Spec.NodeName)))
	d.fact("Scheduler", textValue(r.Spec.SchedulerName))
	d.fact("Created", timeValue(s.at, r.CreationTimestamp))
	d.fact("Expires", expires(r, s))
	holds := make([]heldPlace, 0, len(r.Status.Holds))
	for i := range r.Status.Holds {
		holds = append(holds, heldPlace{&r.Status.Holds[i], i})
	}
	l := listing[heldPlace]{
		id: "holds", label: "Holds", noun: "hold", empty: template.HTML("<p>It holds no capacity.</p>"),
		row: func(h heldPlace) string { return fmt.Sprint(h.place) },
		columns: []column[heldPlace]{
			{"node", "Node", false, func(h heldPlace) value { return linkValue(h.NodeName, nodeURL(s, h.NodeName)) }},
			{"pod", "Used by", false, func(h heldPlace) value {
				if h.PodName == "" {
					return value{Text: "free", Class: "dim", Plain: true}
				}
				return linkValue(h.PodName, s.podURL(r.Namespace, h.PodName))
			}},
		},
	}
	d.parts = l.parts(path, q, holds)
	return d
}

// heldPlace is a hold, with its place in the list.
type heldPlace struct {
	*v1alpha1.Hold
	place int
}

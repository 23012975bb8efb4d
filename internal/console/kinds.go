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
	"berth.dev/berth/internal/kube/display"
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

// details are what the page of an object shows. All texts in them are inert.
type details struct {
	Facts []labelled
	// Links lead to other pages of the object.
	Links      []link
	Conditions []conditionView
	// parts are tables below.
	parts []*part
}

// fact adds a fact that is not empty.
func (d *details) fact(label string, v value) {
	if !v.empty() {
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

// stale marks a value of a status about a generation that is older than that of the object.
func stale(observed, generation int64, v value) value {
	if display.Reported(observed, generation) == display.ReportStale {
		v.Note = strings.TrimSpace(v.Note + " (of an older spec)")
	}
	return v
}

// reported is a number of a status about a generation: unknown if there is no status.
func reported(observed, generation int64, v value) value {
	if display.Reported(observed, generation) == display.ReportAbsent {
		return value{Text: "?", order: -1}
	}
	return stale(observed, generation, v)
}

func mixColumns(s *state) []column[*v1alpha1.CapacityMix] {
	type mix = *v1alpha1.CapacityMix
	counts := func(id, label string, of func(*v1alpha1.ReplicaSplit) int32) column[mix] {
		return column[mix]{id, label, true, func(m mix) value {
			if m.Status.Actual == nil || m.Status.Desired == nil {
				return value{Text: "?", order: -1}
			}
			actual, desired := of(m.Status.Actual), of(m.Status.Desired)
			return reportedOf(m, value{Text: fmt.Sprintf("%d/%d", actual, desired), order: int64(actual)})
		}}
	}
	return []column[mix]{
		nameColumn[mix]("Mix", "mixes"),
		{"selects", "Selects", false, func(m mix) value { return value{Text: selectorText(&m.Spec.Selector)} }},
		{"rule", "Mix of replicas", false, func(m mix) value { return textValue(overview.RuleOf(m)) }},
		{"workloads", "Workloads", true, func(m mix) value {
			return reportedOf(m, value{
				Text: fmt.Sprintf("%d/%d", m.Status.SatisfiedCount, m.Status.WorkloadCount), order: int64(m.Status.WorkloadCount),
			})
		}},
		counts("spot", "Spot", func(r *v1alpha1.ReplicaSplit) int32 { return r.Spot }),
		counts("on-demand", "On-demand", func(r *v1alpha1.ReplicaSplit) int32 { return r.OnDemand }),
		{"status", "Status", false, mixState},
		ageColumn[mix](s),
	}
}

func reportedOf(m *v1alpha1.CapacityMix, v value) value {
	return reported(m.Status.ObservedGeneration, m.Generation, v)
}

// mixState is whether a mix governs pods and, if so, whether they satisfy it.
func mixState(m *v1alpha1.CapacityMix) value {
	kind, word := v1alpha1.ConditionSatisfied, "Satisfied"
	if meta.IsStatusConditionFalse(m.Status.Conditions, v1alpha1.ConditionAccepted) {
		kind, word = v1alpha1.ConditionAccepted, ""
	}
	return stale(m.Status.ObservedGeneration, m.Generation, conditionValue(m.Status.Conditions, kind, word))
}

func mixDetails(m *v1alpha1.CapacityMix, path string, q url.Values, s *state) *details {
	d := &details{Conditions: conditionViews(s, m.Status.Conditions)}
	d.fact("Status", mixState(m))
	d.fact("Mix of replicas", textValue(overview.RuleOf(m)))
	d.fact("Selects", value{Text: selectorText(&m.Spec.Selector)})
	d.fact("Group", textValue(string(m.Spec.Group)))
	d.fact("Without free spot capacity", textValue(string(m.Spec.WhenSpotUnavailable)))
	d.fact("Without free on-demand capacity", textValue(string(m.Spec.WhenOnDemandUnavailable)))
	if m.Spec.ProtectFloor {
		protected := conditionValue(m.Status.Conditions, v1alpha1.ConditionFloorProtected, "Protected")
		d.fact("Floor", stale(m.Status.ObservedGeneration, m.Generation, protected))
	}
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
				return value{draw: func() template.HTML { return render("ribbon", ribbonOf(w, ribbonSlots, true)) }}
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
		{"pods", "Pods", true, podsGoverned},
		{"status", "Status", false, policyState},
		ageColumn[policy](s),
	}
}

// podsGoverned is how many pods a policy governs, as its status reports it.
func podsGoverned(p *v1alpha1.SchedulingPolicy) value {
	return reported(p.Status.ObservedGeneration, p.Generation, numberValue(int(p.Status.PodCount)))
}

func policyState(p *v1alpha1.SchedulingPolicy) value {
	return stale(p.Status.ObservedGeneration, p.Generation, conditionValue(p.Status.Conditions, v1alpha1.ConditionAccepted, "Accepted"))
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
	d.fact("Status", policyState(p))
	d.fact("Selects", value{Text: selectorText(&p.Spec.PodSelector)})
	d.fact("Scores by", textValue(scoreText(p.Spec.Score)))
	d.fact("Tie-breaker", textValue(string(tieBreaker(p))))
	if b := p.Spec.Bind; b != nil {
		d.fact("Binds", textValue(string(b.Mode)))
	}
	d.fact("Records decisions", textValue(string(recordMode(p))))
	d.fact("Pods", podsGoverned(p))
	d.fact("Created", timeValue(s.at, p.CreationTimestamp))
	links := s.workloadLinks(p.Namespace)
	l := listing[overview.PolicyWorkload]{
		id: "governed", label: "Workloads", noun: "workload", empty: "<p>It governs no pod that you may list.</p>",
		unknown: slices.Contains(s.Unread, "pods"),
		row:     func(w overview.PolicyWorkload) string { return w.Kind + "/" + w.Name },
		columns: []column[overview.PolicyWorkload]{
			{"name", "Workload", false, func(w overview.PolicyWorkload) value {
				to := links[[2]string{w.Kind, w.Name}]
				if to == "" && w.Kind == "Pod" {
					to = s.podURL(w.Namespace, w.Name)
				}
				return linkValue(w.Kind+"/"+w.Name, to)
			}},
			{"pods", "Pods", true, func(w overview.PolicyWorkload) value { return numberValue(w.Pods) }},
		},
	}
	d.parts = l.parts(path, q, s.Governed[[2]string{p.Namespace, p.Name}])
	return d
}

// workloadLinks are the pages of the workloads of a namespace, by their kinds and names. In a rollout, a workload has several revisions.
func (s *state) workloadLinks(namespace string) map[[2]string]string {
	links := map[[2]string]string{}
	for i := range s.Overview.Workloads {
		if w := &s.Overview.Workloads[i]; w.Namespace == namespace {
			links[[2]string{w.Kind, w.Name}] = workloadPath(w)
		}
	}
	return links
}

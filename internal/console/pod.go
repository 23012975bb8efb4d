// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/overview"
)

// shownAttempts is the number of attempts on the page of the scores of a pod.
const shownAttempts = 5

// podReport is the page of a pod, with the records of its last attempts.
func podReport(attempts int) func(*report, []string, url.Values) error {
	return func(r *report, object []string, _ url.Values) error {
		r.title = "Pod " + object[1]
		r.read = func(ctx context.Context, reports Reports) (draw, []string, error) {
			e, warnings, err := reports.Explain(ctx, keyOf(object), attempts)
			if err != nil {
				return nil, nil, err
			}
			return func(s *state, _ *url.URL) []*part {
				v := podOf(e, s)
				v.More = attempts == 1
				return []*part{{id: "pod", before: render("pod", v)}}
			}, warnings, nil
		}
		return nil
	}
}

// podView is a pod as its page shows it. All texts are inert.
type podView struct {
	Back value
	// Why are the sentences about its place.
	Why []string
	// Facts are those of the explanation, with links.
	Facts     []labelled
	Decisions []decisionView
	// Unknown is set if the records of attempts could not be read.
	Unknown bool
	// Logs is the page of its logs. Scores is the page with more attempts, More is set on the page with one.
	Logs, Scores string
	More         bool
}

func podOf(e *overview.Explanation, s *state) *podView {
	d := e.Describe(s.at)
	v := &podView{Why: allInert(d.Sentences), Unknown: e.DecisionsUnread, Back: value{Text: "All mixes", URL: "/"}}
	if w := s.workloadOf(e.Namespace, e.Pod); w != nil {
		v.Back = linkValue(workloadName(w), workloadURL(w))
	}
	links := podLinks(e, s, v.Back.URL)
	for _, f := range d.Facts {
		if f.Name == "Name" || f.Name == "Namespace" {
			continue
		}
		v.Facts = append(v.Facts, labelled{value: linkValue(f.Value, links[f.Name]), Label: inert(f.Name)})
	}
	for _, r := range e.Decisions {
		v.Decisions = append(v.Decisions, decisionOf(r, s))
	}
	v.Scores, v.Logs = objectURL("pods", e.Namespace, e.Pod)+"/scores", objectURL("pods", e.Namespace, e.Pod)+"/logs"
	return v
}

// podLinks are the pages that facts of an explanation lead to.
func podLinks(e *overview.Explanation, s *state, workload string) map[string]string {
	links := map[string]string{}
	if e.Workload != nil && workload != "/" {
		links["Workload"] = workload
	}
	if e.Node != nil {
		links["Node"] = nodeURL(s, e.Node.Name)
	}
	if e.Mix != nil {
		if name, is := strings.CutPrefix(e.Mix.Source, governing.SourceCapacityMix); is {
			links["Mix"] = objectURL(mixList.id, e.Namespace, name)
		}
	}
	if e.Limit != nil && !e.Limit.Missing {
		if namespace, name, is := strings.Cut(e.Limit.ResourceLimit, "/"); is {
			links["Resource limit"] = objectURL(limitList.id, namespace, name)
		}
	}
	return links
}

// workloadOf is the workload of a pod, nil if no mix governs it.
func (s *state) workloadOf(namespace, pod string) *overview.Workload {
	if s.Reading == nil {
		return nil
	}
	for i := range s.Overview.Workloads {
		w := &s.Overview.Workloads[i]
		has := func(slot overview.Slot) bool { return slices.Contains(slot.PodNames(), pod) }
		if w.Namespace == namespace && slices.ContainsFunc(w.Slots, has) {
			return w
		}
	}
	return nil
}

// decisionView is the record of a scheduling attempt as it is shown. All texts are inert.
type decisionView struct {
	Outcome, Policy     value
	When                value
	Message, TieBreaker string
	Feasible, Tied      int
	// Reservation is what the pod was to use.
	Reservation value
	Functions   []functionBar
	Candidates  []candidateView
	Rejections  []rejectionView
	Scheduler   string
}

// functionBar is a score function with the class of its color.
type functionBar struct{ Name, Class, Coefficient string }

// candidateView is a feasible node with a bar, which has a segment for each function.
type candidateView struct {
	Node           value
	Selected       bool
	Score, Demoted string
	Segments       []segment
	Values         []string
}

// segment is a part of a bar, in hundredths of the longest bar.
type segment struct{ Class, X, Width string }

// rejectionView is a reason for which nodes were refused.
type rejectionView struct {
	Reason, Message string
	Nodes           int
	Example         value
}

func decisionOf(r *overview.Decision, s *state) decisionView {
	v := decisionView{
		Outcome: badgeValue(string(r.Outcome), outcomeClass(v1alpha1.AttemptOutcome(r.Outcome))),
		When:    timeValue(s.at, metav1.NewTime(r.Time)),
		Message: inert(r.Message), TieBreaker: inert(r.TieBreaker), Feasible: r.Feasible, Tied: r.Tied, Scheduler: inert(r.SchedulerName),
	}
	if r.Policy != "" {
		v.Policy = linkValue(r.Policy, objectURL(policyList.id, r.Namespace, r.Policy))
	}
	if r.Reservation != "" {
		v.Reservation = linkValue(r.Reservation, objectURL(reservationList.id, r.Namespace, r.Reservation))
	}
	for i, f := range r.Functions {
		v.Functions = append(v.Functions, functionBar{inert(f.Name), functionClass(i), decimals(f.Coefficient)})
	}
	longest := 0.0
	for i := range r.Candidates {
		longest = max(longest, r.Candidates[i].Score)
	}
	for i := range r.Candidates {
		v.Candidates = append(v.Candidates, candidateOf(r, i, longest, s))
	}
	for i := range r.Rejections {
		n := &r.Rejections[i]
		view := rejectionView{Reason: inert(string(n.Reason)), Message: inert(n.Message), Nodes: n.Nodes}
		if n.Requested != "" {
			view.Message += inert(": the pod requests " + n.Requested + ", a node has at most " + n.Available)
		}
		view.Example = linkValue(n.Example, nodeURL(s, n.Example))
		v.Rejections = append(v.Rejections, view)
	}
	return v
}

func outcomeClass(o v1alpha1.AttemptOutcome) string {
	switch o {
	case v1alpha1.AttemptBound:
		return "ok"
	case v1alpha1.AttemptUnschedulable, v1alpha1.AttemptBindFailed:
		return "bad"
	}
	return "plain"
}

// functionClasses are the colors of functions: a record has six at most.
const functionClasses = 6

func functionClass(i int) string { return "part-" + strconv.Itoa(i%functionClasses+1) }

func candidateOf(r *overview.Decision, i int, longest float64, s *state) candidateView {
	c := &r.Candidates[i]
	v := candidateView{
		Node: linkValue(c.Node, nodeURL(s, c.Node)), Selected: r.Node != "" && c.Node == r.Node,
		Score: decimals(c.Score), Demoted: inert(c.Demoted),
	}
	at := 0.0
	for j, f := range r.Functions {
		of := 0.0
		if j < len(c.Values) {
			of = c.Values[j]
		}
		v.Values = append(v.Values, decimals(of))
		width := 0.0
		if longest > 0 {
			width = min(max(100*of*f.Coefficient/longest, 0), 100-at)
		}
		v.Segments = append(v.Segments, segment{functionClass(j), decimals(at), decimals(width)})
		at += width
	}
	return v
}

// decimals is a number with two decimals at most.
func decimals(n float64) string {
	text := strconv.FormatFloat(n, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/decision"
	"berth.dev/berth/internal/policies/score"
)

// begin returns the record of an attempt that began at a time, without an outcome.
func (pl *SchedulingPolicy) begin(g *governor, pod *corev1.Pod, start time.Time) *decision.Record {
	r := &decision.Record{
		ID: idOf(pod, start), Time: start, Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, SchedulerName: pl.handle.ProfileName(),
		Policy: g.name(),
	}
	for _, f := range g.rules.Functions {
		r.Functions = append(r.Functions, decision.Function{Name: string(f.Name), Priority: f.Priority, Coefficient: f.Coefficient})
	}
	return r
}

// idOf identifies an attempt: two attempts of a pod are more than a millisecond apart.
func idOf(pod *corev1.Pod, start time.Time) string {
	uid := string(pod.UID)
	return fmt.Sprintf("%s-%s", uid[:min(8, len(uid))], strconv.FormatInt(start.UnixMilli(), 36))
}

// placed adds to the record of an attempt what led to its node.
func placed(r *decision.Record, c *cycle, pod *corev1.Pod, node string) {
	r.Node, r.Feasible = node, 1
	r.Rejections = decision.Aggregate(pod, c.rejected.take())
	t := c.table
	if t == nil {
		return // the only feasible node: none is scored
	}
	r.Feasible, r.Tied, r.TieBreaker = len(t.candidates), t.tied, string(c.governor.rules.TieBreaker)
	for _, i := range t.best(c.governor.rules.Candidates) {
		candidate := &t.candidates[i]
		shown := decision.Candidate{Node: candidate.Node, Score: candidate.Score, Demoted: t.demoted[candidate.Node]}
		for _, f := range c.governor.rules.Functions {
			shown.Values = append(shown.Values, score.Value(f.Name, &t.facts[i], t.most))
		}
		r.Candidates = append(r.Candidates, shown)
	}
}

// best returns the indexes of the selected node and of the best others, at most n in all.
func (t *table) best(n int) []int {
	order := make([]int, 0, len(t.candidates))
	for i := range t.candidates {
		if i != t.selected {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return score.Better(&t.candidates[a], &t.candidates[b]) })
	return append([]int{t.selected}, order[:min(n-1, len(order))]...)
}

// keeps reports whether the rules record attempts with an outcome.
func (g *governor) keeps(outcome decision.Outcome) bool {
	switch g.rules.Record {
	case v1alpha1.RecordAlways:
		return true
	case v1alpha1.RecordOnFailure:
		return outcome == decision.BindFailed || outcome == decision.Unschedulable
	}
	return false
}

// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Selector selects the pods of a workload.
type Selector = metav1.LabelSelector

// Labels are the labels of the pods of the workloads of a namespace, by the number of the workload. It answers which of them a selector
// selects without a look at all.
type Labels struct {
	sets []labels.Set
	with map[pair][]int
}

type pair struct{ key, value string }

// Add adds the labels of the next workload, and returns its number.
func (l *Labels) Add(of labels.Set) int {
	if l.with == nil {
		l.with = map[pair][]int{}
	}
	for key, value := range of {
		p := pair{key, value}
		l.with[p] = append(l.with[p], len(l.sets))
	}
	l.sets = append(l.sets, of)
	return len(l.sets) - 1
}

// Selected calls found for each workload that a selector selects, until that returns false. Of the requirements for values, that which the
// fewest workloads have bounds the look.
func (l *Labels) Selected(s labels.Selector, found func(int) bool) {
	for _, i := range l.candidates(s) {
		if s.Matches(l.sets[i]) && !found(i) {
			return
		}
	}
}

// candidates are the workloads that may match.
func (l *Labels) candidates(s labels.Selector) []int {
	requirements, selectable := s.Requirements()
	if !selectable {
		return nil
	}
	best, fewest := -1, len(l.sets)
	for i := range requirements {
		if n, bounded := l.having(&requirements[i]); bounded && n <= fewest {
			best, fewest = i, n
		}
	}
	list := make([]int, 0, fewest)
	if best < 0 {
		for i := range l.sets {
			list = append(list, i)
		}
		return list
	}
	values, _ := valuesOf(&requirements[best])
	for _, v := range values {
		list = append(list, l.with[pair{requirements[best].Key(), v}]...)
	}
	slices.Sort(list)
	return list
}

// having is how many workloads have a value that a requirement needs.
func (l *Labels) having(r *labels.Requirement) (n int, bounded bool) {
	values, bounded := valuesOf(r)
	for _, v := range values {
		n += len(l.with[pair{r.Key(), v}])
	}
	return n, bounded
}

// valuesOf are the values of which a requirement needs one. ok is false for other requirements.
func valuesOf(r *labels.Requirement) (values []string, ok bool) {
	switch r.Operator() {
	case selection.Equals, selection.DoubleEquals, selection.In:
		return r.Values().UnsortedList(), true
	}
	return nil, false
}

// Alone returns the first of some selectors that selects a workload and no other, nil for none.
func (l *Labels) Alone(workload int, choices ...*Selector) *Selector {
	for _, c := range choices {
		if !mixMayHave(c) {
			continue
		}
		s, err := metav1.LabelSelectorAsSelector(c)
		if err != nil {
			continue
		}
		own, others := false, false
		l.Selected(s, func(i int) bool {
			own, others = own || i == workload, others || i != workload
			return !others
		})
		if own && !others {
			return c
		}
	}
	return nil
}

// mixMayHave reports whether a CapacityMix may have a selector: it has bounds, and an empty one selects all pods.
func mixMayHave(s *Selector) bool {
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 || max(len(s.MatchLabels), len(s.MatchExpressions)) > maxLabels {
		return false
	}
	return !slices.ContainsFunc(s.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return len(r.Values) > maxValues })
}

// generated are labels of pods that their controllers or the API server derive: a later pod may have other values.
var generated = map[string]bool{
	"pod-template-hash": true, "rollouts-pod-template-hash": true, "controller-revision-hash": true, "controller-uid": true,
	"job-name": true, "batch.kubernetes.io/controller-uid": true, "batch.kubernetes.io/job-name": true,
	"batch.kubernetes.io/job-completion-index": true, "statefulset.kubernetes.io/pod-name": true, "apps.kubernetes.io/pod-index": true,
	"topology.kubernetes.io/zone": true, "topology.kubernetes.io/region": true,
	"leaderworkerset.sigs.k8s.io/group-key": true, "leaderworkerset.sigs.k8s.io/group-index": true,
	"leaderworkerset.sigs.k8s.io/worker-index": true, "leaderworkerset.sigs.k8s.io/template-revision-hash": true,
	"jobset.sigs.k8s.io/job-key": true, "jobset.sigs.k8s.io/job-index": true, "jobset.sigs.k8s.io/restart-attempt": true,
	"jobset.sigs.k8s.io/job-global-index": true,
}

// maxLabels is how many labels, and how many expressions, the selector of a CapacityMix may have.
const maxLabels = 16

// maxValues is how many values an expression has.
const maxValues = 32

// Common keeps of labels those that another pod of the workload has, too, and that are not generated.
func Common(kept, of labels.Set) labels.Set {
	if kept == nil {
		kept = maps.Clone(of)
	}
	maps.DeleteFunc(kept, func(key, value string) bool { return generated[key] || of[key] != value })
	return kept
}

// SelectorOf selects by labels.
func SelectorOf(of labels.Set) *Selector { return &Selector{MatchLabels: maps.Clone(of)} }

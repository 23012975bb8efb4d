// SPDX-License-Identifier: Apache-2.0

package stages

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

// Search is how far the search for nodes has come for the members of a pod group with slots of one type.
//
// A single pod has an attempt of its own in the ledger. The members of a pod group hold no slot while the group waits, and the slot
// that a member gets differs from cycle to cycle. So the search is that of the group. It is lost when the scheduler starts again.
type Search struct {
	ledger.Attempt
	// Found is how many members found a node of that type in the last cycle. In StageBorrow these are not tried on the other type.
	Found int
}

// Searches is safe for concurrent use.
type Searches struct {
	mu      sync.Mutex
	byGroup map[types.NamespacedName]map[capacity.Type]Search
}

// NewSearches returns no searches.
func NewSearches() *Searches {
	return &Searches{byGroup: map[types.NamespacedName]map[capacity.Type]Search{}}
}

// Of returns the search of a group for a type, the zero value if none has begun.
func (s *Searches) Of(group types.NamespacedName, t capacity.Type) Search {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byGroup[group][t]
}

// Set records how far the search of a group has come for a type.
func (s *Searches) Set(group types.NamespacedName, t capacity.Type, to Search) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byGroup[group] == nil {
		s.byGroup[group] = map[capacity.Type]Search{}
	}
	s.byGroup[group][t] = to
}

// Forget ends the search of the group of a pod that is being bound, or that is gone.
func (s *Searches) Forget(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pod.Spec.SchedulingGroup != nil {
		delete(s.byGroup, GroupOf(pod))
	}
}

// GroupOf is the pod group of a pod.
func GroupOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: ptr.Deref(pod.Spec.SchedulingGroup.PodGroupName, "")}
}

// Member is the attempt for the nth member, from 0, that gets a slot of the type in a cycle.
//
// The stages sample and ahead are for single pods: one member without a node ends the cycle of the whole group.
func (s Search) Member(n int) ledger.Attempt {
	if s.Stage != ledger.StageBorrow || n < s.Found {
		s.Stage = ledger.StageType
	}
	return s.Attempt
}

// SPDX-License-Identifier: Apache-2.0

package floor

import (
	"context"
	"maps"
	"sync"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/mix/floor"
	"berth.dev/berth/internal/mix/governing"
)

// maxForeign is how many PodDisruptionBudgets of users are matched in a namespace, and maxOwned how many Berth writes there.
const maxForeign, maxOwned = 1000, 1000

// budgets are the PodDisruptionBudgets of the cluster: the selectors of those of users, and the groups of those of Berth. It is safe for
// concurrent use.
type budgets struct {
	foreign *budget.Selectors[struct{}]

	mu  sync.Mutex
	own map[string]map[string]governing.GroupKey
}

func newBudgets() *budgets {
	return &budgets{foreign: budget.NewSelectors[struct{}](maxForeign), own: map[string]map[string]governing.GroupKey{}}
}

// groupOf returns the group for which Berth keeps a budget, and whether it is one of Berth.
func groupOf(b *policyv1.PodDisruptionBudget) (key governing.GroupKey, own bool) {
	key = governing.GroupKey{Namespace: b.Namespace, ID: b.Annotations[v1alpha1.FloorGroupAnnotation]}
	label := governing.FloorLabel(key)
	return key, b.Labels[v1alpha1.FloorLabel] == label && b.Name == floor.NameOf(label)
}

// Concerned is the group for which Berth keeps a budget, or the namespace of a budget of a user: it may select any pod.
func Concerned(b *policyv1.PodDisruptionBudget) governing.GroupKey {
	if key, own := groupOf(b); own {
		return key
	}
	return governing.GroupKey{Namespace: b.Namespace}
}

// set notes a budget. An invalid selector selects nothing, as in the Eviction API.
func (s *budgets) set(b *policyv1.PodDisruptionBudget) (changed governing.GroupKey) {
	if key, own := groupOf(b); own {
		s.foreign.Delete(b.Namespace, b.Name)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.own[b.Namespace] == nil {
			s.own[b.Namespace] = map[string]governing.GroupKey{}
		}
		s.own[b.Namespace][b.Name] = key
		return key
	}
	s.disown(b)
	e := &budget.Entry[struct{}]{Name: b.Name, Created: b.CreationTimestamp.Time}
	if selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && b.Spec.Selector != nil {
		e.Selector = budget.CompileSelector(selector)
	}
	s.foreign.Set(b.Namespace, e)
	return governing.GroupKey{Namespace: b.Namespace}
}

// drop notes that a budget is gone.
func (s *budgets) drop(b *policyv1.PodDisruptionBudget) (changed governing.GroupKey) {
	s.disown(b)
	s.foreign.Delete(b.Namespace, b.Name)
	return Concerned(b)
}

func (s *budgets) disown(b *policyv1.PodDisruptionBudget) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.own[b.Namespace]
	if delete(all, b.Name); len(all) == 0 {
		delete(s.own, b.Namespace)
	}
}

// owned is how many budgets of a namespace are of Berth.
func (s *budgets) owned(namespace string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.own[namespace])
}

// namespaces are those with budgets of Berth.
func (s *budgets) namespaces() map[string]struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]struct{}, len(s.own))
	for name := range s.own {
		all[name] = struct{}{}
	}
	return all
}

// of is the group with a budget of Berth that selects a label.
func (s *budgets) of(namespace, label string) (key governing.GroupKey, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, found = s.own[namespace][floor.NameOf(label)]
	return key, found
}

// keys adds the groups of the budgets of Berth.
func (s *budgets) keys(namespace string, to map[governing.GroupKey]struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.own[namespace] {
		to[key] = struct{}{}
	}
}

// exceeds reports whether not all budgets of users in a namespace are matched.
func (s *budgets) exceeds(namespace string) bool {
	all := s.foreign.In(namespace)
	return len(all) > 0 && s.foreign.Exceeds(namespace, all[len(all)-1].Name)
}

// overlapping is selecting for a group, nil where users have no budgets.
func (s *budgets) overlapping(key governing.GroupKey) func(labels map[string]string) string {
	if len(s.foreign.In(key.Namespace)) == 0 {
		return nil
	}
	return func(labels map[string]string) string { return s.selecting(key, labels) }
}

// selecting names the oldest budget of a user that selects replicas of a group, by their labels and that of the floor; "" if there is none.
func (s *budgets) selecting(key governing.GroupKey, labels map[string]string) (name string) {
	label := governing.FloorLabel(key)
	set := maps.Clone(labels)
	if set == nil {
		set = map[string]string{}
	}
	set[v1alpha1.FloorLabel] = label
	var oldest *budget.Entry[struct{}]
	for e := range s.foreign.Selecting(key.Namespace, set) {
		// An edited one of Berth is repaired.
		if e.Name != floor.NameOf(label) && (oldest == nil || budget.Older(e, oldest) < 0) {
			oldest = e
		}
	}
	if oldest == nil {
		return ""
	}
	return oldest.Name
}

// budgetHandler keeps the budgets up to date, and queues the groups that a change concerns. Their status is not among that.
func (c *Controller) budgetHandler() handler.TypedEventHandler[*policyv1.PodDisruptionBudget, governing.GroupKey] {
	type queue = workqueue.TypedRateLimitingInterface[governing.GroupKey]
	type pdb = *policyv1.PodDisruptionBudget
	return handler.TypedFuncs[pdb, governing.GroupKey]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[pdb], _ queue) { c.Changed(c.budgets.set(e.Object)) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[pdb], _ queue) {
			c.budgetChanged(e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[pdb], _ queue) { c.Changed(c.budgets.drop(e.Object)) },
	}
}

func (c *Controller) budgetChanged(before, after *policyv1.PodDisruptionBudget) {
	if before.UID == after.UID && before.Generation == after.Generation && maps.Equal(before.Labels, after.Labels) &&
		maps.Equal(before.Annotations, after.Annotations) && equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences) {
		return
	}
	key, own := groupOf(before)
	if changed := c.budgets.set(after); changed != key || !own {
		c.Changed(changed)
	}
	if own {
		c.Changed(key) // it is repaired
	}
}

// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/capacity"
	"berth.dev/berth/internal/mix"
)

// compiled is a CapacityMix with its selector parsed.
type compiled struct {
	name     string
	uid      types.UID
	created  metav1.Time
	selector labels.Selector
	policy   Policy
}

// FromCapacityMix translates a CapacityMix. The API server's validation refuses
// what this refuses; objects stored under older rules still arrive here.
func FromCapacityMix(cm *v1alpha1.CapacityMix) (Policy, labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(cm.Spec.Selector.AsLabelSelector())
	if err != nil {
		return Policy{}, nil, fmt.Errorf("spec.selector: %w", err)
	}
	m := mix.Mix{SpotPercent: cm.Spec.SpotPercent, MinOnDemand: cm.Spec.MinOnDemand, MaxSpot: MaxSpot(cm.Spec.MaxSpot)}
	if err := m.Validate(); err != nil {
		return Policy{}, nil, fmt.Errorf("spec.%w", err)
	}
	if s := cm.Spec.SpotWaitSeconds; s != nil && *s < 0 {
		return Policy{}, nil, fmt.Errorf("spec.spotWaitSeconds: %d is negative", *s)
	}
	wait, gated := SpotWaits(cm.Spec.SpotWaitSeconds)
	var byType map[capacity.Type][]corev1.Toleration
	if t := cm.Spec.Tolerations; t != nil {
		byType = map[capacity.Type][]corev1.Toleration{capacity.Spot: tolerations(t.Spot), capacity.OnDemand: tolerations(t.OnDemand)}
	}
	return Policy{
		Source:         SourceCapacityMix + cm.Name,
		Mix:            m,
		BorrowOnDemand: cm.Spec.WhenSpotUnavailable != v1alpha1.WhenSpotUnavailableWait,
		SpotWait:       wait,
		GatedSpotWait:  gated,
		Tolerations:    byType,
		BorrowSpot:     cm.Spec.WhenOnDemandUnavailable == v1alpha1.WhenOnDemandUnavailableSpot,
		SpreadSpotOver: cm.Spec.SpreadSpotOver,
	}, selector, nil
}

func tolerations(all []v1alpha1.Toleration) []corev1.Toleration {
	var out []corev1.Toleration
	for _, t := range all {
		out = append(out, corev1.Toleration(t))
	}
	return out
}

// Store holds the CapacityMixes of a cluster, ready to be matched. Safe for
// concurrent use.
type Store struct {
	mu sync.RWMutex
	// byNamespace lists are sorted oldest first and replaced, never changed in place.
	byNamespace map[string][]*compiled
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{byNamespace: map[string][]*compiled{}}
}

// Set adds or replaces a CapacityMix. One that cannot be translated is removed
// from the store and the reason returned: it governs nothing.
func (s *Store) Set(cm *v1alpha1.CapacityMix) error {
	p, selector, err := FromCapacityMix(cm)
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.without(cm.Namespace, cm.Name)
	if err == nil {
		list = append(list, &compiled{name: cm.Name, uid: cm.UID, created: cm.CreationTimestamp, selector: selector, policy: p})
		slices.SortFunc(list, func(a, b *compiled) int {
			return cmp.Or(a.created.Compare(b.created.Time), cmp.Compare(a.name, b.name))
		})
	}
	s.replace(cm.Namespace, list)
	return err
}

// Delete removes a CapacityMix.
func (s *Store) Delete(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replace(namespace, s.without(namespace, name))
}

// without returns a copy of a namespace's list without one name.
func (s *Store) without(namespace, name string) []*compiled {
	old := s.byNamespace[namespace]
	list := make([]*compiled, 0, len(old)+1)
	for _, c := range old {
		if c.name != name {
			list = append(list, c)
		}
	}
	return list
}

func (s *Store) replace(namespace string, list []*compiled) {
	if len(list) == 0 {
		delete(s.byNamespace, namespace)
		return
	}
	s.byNamespace[namespace] = list
}

// Match returns the policy of the oldest CapacityMix of the namespace that
// selects the labels, ties by name; nil if there is none. The result is shared
// and must not be changed.
func (s *Store) Match(namespace string, podLabels map[string]string) *Policy {
	s.mu.RLock()
	list := s.byNamespace[namespace]
	s.mu.RUnlock()
	for _, c := range list {
		if c.selector.Matches(labels.Set(podLabels)) {
			return &c.policy
		}
	}
	return nil
}

// MaxSpot translates an optional upper bound into Mix.MaxSpot.
func MaxSpot(bound *int32) int32 {
	if bound == nil {
		return mix.NoMax
	}
	return *bound
}

// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/limits/registry"
	"berth.dev/berth/internal/mix/clusterstate"
)

// Usage are the users of a limit, in one namespace or in all.
type Usage struct {
	Pods      int
	Workloads sets.Set[v1alpha1.WorkloadReference]
	// Older are the names of the limits that have pods which this one selects as well.
	Older sets.Set[string]
	// Exceeds is set for a limit that selects no pods because older ones of its namespace reach a bound.
	Exceeds bool
}

// referenced reports whether the limit is used.
func (u *Usage) referenced() bool { return u.Pods > 0 || len(u.Workloads) > 0 }

// add adds those of another namespace.
func (u *Usage) add(other *Usage) {
	u.Pods += other.Pods
	maps.Copy(u.Workloads, other.Workloads)
	maps.Copy(u.Older, other.Older)
}

func newUsage() *Usage {
	return &Usage{Workloads: sets.New[v1alpha1.WorkloadReference](), Older: sets.New[string]()}
}

// sorted returns the workloads in the order of the status.
func (u *Usage) sorted() []v1alpha1.WorkloadReference {
	return slices.SortedFunc(maps.Keys(u.Workloads), func(a, b v1alpha1.WorkloadReference) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
}

// census is what a tally of one namespace is made from.
type census struct {
	namespace string
	pods      []*clusterstate.Pod
	templates []Template
	// limits are those of the namespace; those without a selector are ignored.
	limits []*v1alpha1.ResourceLimit
}

// tally counts the users of each limit. It is a pure function of its arguments.
func tally(
	c census, resolve func(*corev1.Pod) registry.Resolution, above func(*clusterstate.Pod) clusterstate.Workload,
) map[types.NamespacedName]*Usage {
	all := map[types.NamespacedName]*Usage{}
	of := func(l *v1alpha1.ResourceLimit) *Usage {
		key := types.NamespacedName{Namespace: l.Namespace, Name: l.Name}
		if all[key] == nil {
			all[key] = newUsage()
		}
		return all[key]
	}
	rivals := newRivals(c.limits)
	o := &corev1.Pod{}
	for _, p := range c.pods {
		if p.Finished {
			continue
		}
		p.Into(o)
		r := resolve(o)
		if r.Limit == nil {
			continue
		}
		u := of(r.Limit.Limit)
		u.Pods++
		w := above(p)
		u.Workloads.Insert(v1alpha1.WorkloadReference{
			Kind: applyset.Shorten(w.Kind, maxKind), Namespace: w.Namespace, Name: applyset.Shorten(w.Name, maxName),
		})
		if registry.Named(o) != "" {
			continue // it chose
		}
		for _, loser := range rivals.of(p) {
			if loser.Name != r.Limit.Limit.Name {
				of(loser).Older.Insert(r.Limit.Limit.Name)
			}
		}
	}
	for _, t := range c.templates {
		o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: c.namespace,
			Labels:    map[string]string{v1alpha1.ResourceLimitLabel: t.Limit},
		}}
		if r := resolve(o); r.Limit != nil {
			of(r.Limit.Limit).Workloads.Insert(t.Workload)
		}
	}
	return all
}

// rivals are limits that select pods. The cluster state keeps a set of labels once, so
// what a set is selected by is found once.
type rivals struct {
	limits    []*v1alpha1.ResourceLimit
	selectors []labels.Selector
	known     map[clusterstate.LabelSet][]*v1alpha1.ResourceLimit
}

func newRivals(all []*v1alpha1.ResourceLimit) *rivals {
	r := &rivals{known: map[clusterstate.LabelSet][]*v1alpha1.ResourceLimit{}}
	for _, l := range all {
		if l.Spec.Selector == nil {
			continue
		}
		if s, err := metav1.LabelSelectorAsSelector(l.Spec.Selector.AsLabelSelector()); err == nil {
			r.limits, r.selectors = append(r.limits, l), append(r.selectors, s)
		}
	}
	return r
}

func (r *rivals) of(p *clusterstate.Pod) []*v1alpha1.ResourceLimit {
	if len(r.limits) < 2 {
		return nil
	}
	key := p.LabelSet()
	found, known := r.known[key]
	if !known {
		for i, s := range r.selectors {
			if s.Matches(labels.Set(p.Labels)) {
				found = append(found, r.limits[i])
			}
		}
		r.known[key] = found
	}
	return found
}

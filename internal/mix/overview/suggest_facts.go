// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/internal/mix/savings"
	"berth.dev/berth/internal/mix/suggest"
)

// nodeBand is an instance type with its interruption band, 0 for an unknown one.
type nodeBand struct {
	instanceType string
	band         int
}

// nodeForecast is a node with its band, once it was looked up.
type nodeForecast struct {
	object *corev1.Node
	looked bool
	nodeBand
	source *prices.Source
}

func (n *nodeForecast) look(book *prices.Book) nodeBand {
	if n.looked {
		return n.nodeBand
	}
	n.looked = true
	of := capacity.OfferingOf(n.object)
	n.instanceType = cmp.Or(display.Inert(of.InstanceType, maxName), "a node without the label "+corev1.LabelInstanceTypeStable)
	n.band, n.source = book.Band(&prices.Node{InstanceType: of.InstanceType, Region: of.Region})
	return n.nodeBand
}

// bandsOf are the instance types of a workload, in their order.
func bandsOf(all map[nodeBand]int) (list []suggest.Band) {
	for b, n := range all {
		list = append(list, suggest.Band{InstanceType: b.instanceType, Band: b.band, Pods: n})
	}
	slices.SortFunc(list, func(a, b suggest.Band) int {
		return cmp.Or(cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.Band, b.Band))
	})
	return list
}

// bandSources are where bands are from.
func (g *gatherer) bandSources() []prices.Source {
	list := []prices.Source{}
	for _, n := range g.nodes {
		if n.source != nil && !slices.Contains(list, *n.source) {
			list = append(list, *n.source)
		}
	}
	slices.SortFunc(list, func(a, b prices.Source) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// volumesOf adds the claims of a pod.
func (g *gatherer) volumesOf(s *subject, o *corev1.Pod) {
	for i := range o.Spec.Volumes {
		v := &o.Spec.Volumes[i]
		switch {
		case v.PersistentVolumeClaim != nil:
			g.claim(s, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			g.claim(s, o.Name+"-"+v.Name)
		}
	}
}

// claim adds a claim: a volume for one node is local, or attached to one node at a time.
func (g *gatherer) claim(s *subject, name string) {
	if g.Missing(ClaimsResource) {
		s.VolumesUnread = true
		return
	}
	c := g.claims[types.NamespacedName{Namespace: s.Namespace, Name: name}]
	if c == nil {
		return // the pod waits for it
	}
	v := g.volumes[c.Spec.VolumeName]
	switch {
	case c.Spec.VolumeName != "" && v == nil && g.Missing(VolumesResource):
		s.VolumesUnread = true
	case v != nil && (v.Spec.Local != nil || v.Spec.HostPath != nil):
		s.LocalClaim = cmp.Or(s.LocalClaim, display.Inert(name, maxName))
	case pods.OnOneNode(c):
		s.AttachedClaim = cmp.Or(s.AttachedClaim, display.Inert(name, maxName))
	}
}

// money adds what the pods cost, in one pass over the pods of all workloads.
func (g *gatherer) money() *savings.Report {
	of := map[savings.Row]*subject{}
	r := savings.Of(func(yield func(savings.Replica) bool) {
		for _, s := range g.list {
			row := savings.Row{Namespace: s.Namespace, Kind: s.top.Kind, Name: s.top.Name}
			of[row] = s
			for _, p := range s.pods {
				one := savings.Replica{Row: row, Type: capacity.Spot.String(), Pods: []savings.Pod{{
					Node: p.Node, NodeType: g.State.Node(p.Node).Type.String(), MilliCPU: p.CPU, Memory: p.Memory,
				}}}
				if s.selected && !yield(one) {
					return
				}
			}
		}
	}, g.Nodes, g.Book, g.Now)
	for i := range r.Rows {
		row := &r.Rows[i]
		of[savings.Row{Namespace: row.Namespace, Kind: row.Kind, Name: row.Name}].Money = suggest.Money{
			Priced: row.Priced, Saved: row.Saved, Available: row.Available,
		}
	}
	for i := range r.Unpriced {
		r.Unpriced[i].Reason = display.Inert(r.Unpriced[i].Reason, maxReason)
	}
	return r
}

// maxBudgets is how many budgets of a workload are kept: more than one is too many.
const maxBudgets = 4

// budgets adds the PodDisruptionBudgets to the workloads that they select. Those of Berth are none: a mix that has them replaces them.
func (g *gatherer) budgets() {
	members := map[string][]*subject{}
	for _, s := range g.list {
		members[s.Namespace] = append(members[s.Namespace], s)
	}
	selected := map[[2]string][]int{}
	for _, b := range g.PodDisruptionBudgets {
		_, floor := b.Labels[v1alpha1.FloorLabel]
		of := g.labels[b.Namespace]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if floor || of == nil || err != nil {
			continue // the Eviction API takes an invalid selector to select no pod
		}
		key := [2]string{b.Namespace, selector.String()}
		numbers, known := selected[key]
		if !known {
			of.Selected(selector, func(i int) bool {
				numbers = append(numbers, i)
				return true
			})
			selected[key] = numbers
		}
		budget := budgetOf(b)
		budget.Workloads = len(numbers)
		for _, i := range numbers {
			budget.Pods += members[b.Namespace][i].Pods
		}
		for _, i := range numbers {
			if s := members[b.Namespace][i]; len(s.Budgets) < maxBudgets {
				s.Budgets = append(s.Budgets, budget)
			}
		}
	}
}

func budgetOf(b *policyv1.PodDisruptionBudget) suggest.Budget {
	return suggest.Budget{
		Name: display.Inert(b.Name, maxName), MinAvailable: amountOf(b.Spec.MinAvailable), MaxUnavailable: amountOf(b.Spec.MaxUnavailable),
	}
}

// amountOf is a field of a budget. What is no percentage allows none to be missing.
func amountOf(v *intstr.IntOrString) suggest.Amount {
	if v == nil {
		return suggest.Amount{}
	}
	if v.Type == intstr.Int {
		return suggest.Amount{Set: true, Value: max(0, v.IntValue())}
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, 100, true)
	if err != nil || n < 0 {
		return suggest.Amount{}
	}
	return suggest.Amount{Set: true, Percent: true, Value: n}
}

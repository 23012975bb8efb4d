// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/test/perf/bench"
)

// quality is how good the places are that the pods got: speed without it is worth nothing.
//
// mix_error_pods is how far a group was from its split, in pods, after the
// worst of its placements. utilisation_stddev_points is the standard deviation,
// over all nodes, of the requested share of their CPU, in percentage
// points. worst_domain_percent is the share of a group's spot pods that the
// loss of one interruption domain (zone and instance type) takes, mean over the
// groups with at least as many spot pods as there are domains.
func (r *runner) quality() bench.Values {
	v := bench.Values{"utilisation_stddev_points": r.utilisation(), "pods": float64(len(r.placed))}
	if share := r.worstDomain(); share > 0 {
		v["worst_domain_percent"] = 100 * share
	}
	if !r.cluster.scenario.Ungoverned {
		v["mix_error_pods"] = r.mixError()
	}
	return v
}

// inOrder calls back for all placed pods, in the order in which they were placed.
func (r *runner) inOrder(f func(pod *corev1.Pod, node string)) {
	for i := range r.next {
		if node, ok := r.placed[i]; ok {
			f(&r.cluster.pods[i], node)
		}
	}
}

func (r *runner) mixError() float64 {
	orders := map[string][]capacity.Type{}
	for i := range r.cluster.existing {
		if p := &r.cluster.existing[i]; p.Labels["mixed"] != "" {
			orders[r.groupOf(p)] = append(orders[r.groupOf(p)], r.cluster.types[p.Spec.NodeName])
		}
	}
	r.inOrder(func(p *corev1.Pod, node string) {
		orders[r.groupOf(p)] = append(orders[r.groupOf(p)], r.cluster.types[node])
	})
	worst := 0
	for _, order := range orders {
		most, _ := bench.MixError(rule, order)
		worst = max(worst, most)
	}
	return float64(worst)
}

// groupOf is the group of a pod with a mix.
func (r *runner) groupOf(p *corev1.Pod) string {
	if r.bySelector {
		return ""
	}
	return p.Labels["app"]
}

func (r *runner) utilisation() float64 {
	asked := map[string]float64{}
	add := func(p *corev1.Pod, node string) {
		asked[node] += float64(p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue())
	}
	for i := range r.cluster.existing {
		add(&r.cluster.existing[i], r.cluster.existing[i].Spec.NodeName)
	}
	r.inOrder(add)
	shares := make([]float64, 0, len(r.cluster.nodes))
	for i := range r.cluster.nodes {
		n := &r.cluster.nodes[i]
		shares = append(shares, 100*asked[n.Name]/float64(n.Status.Allocatable.Cpu().MilliValue()))
	}
	return bench.Deviation(shares)
}

func (r *runner) worstDomain() float64 {
	domains := map[string]string{}
	for i := range r.cluster.nodes {
		l := r.cluster.nodes[i].Labels
		domains[l["kubernetes.io/hostname"]] = l[corev1.LabelTopologyZone] + l[corev1.LabelInstanceTypeStable]
	}
	groups := map[string]map[string]int{}
	r.inOrder(func(p *corev1.Pod, node string) {
		if r.cluster.types[node] != capacity.Spot {
			return
		}
		if groups[p.Labels["app"]] == nil {
			groups[p.Labels["app"]] = map[string]int{}
		}
		groups[p.Labels["app"]][domains[node]]++
	})
	var shares []float64
	for _, in := range groups {
		most, all := 0, 0
		for _, n := range in {
			most, all = max(most, n), all+n
		}
		if all >= zones*machines {
			shares = append(shares, float64(most)/float64(all))
		}
	}
	slices.Sort(shares) // so that the sum does not depend on the order of a map
	sum := 0.0
	for _, s := range shares {
		sum += s / float64(len(shares))
	}
	return sum
}

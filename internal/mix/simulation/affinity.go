// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// vacancy is what the domains of a replacement are computed from, as the plugin InterPodAffinity does in PreFilter and Filter of
// Kubernetes 1.37. Pods that terminate count.
type vacancy struct {
	Domains
	next *corev1.Pod
	own  Holder
	// now is the state without the placeholder, after also without what leaves first: the replica, and moves in progress.
	now, after *state
	leaving    []*corev1.Pod
	// held are the nodes of other placeholders, by position.
	held []int
	// rules are stated as requirements. A placeholder has the terms of those that are kept.
	rules, kept []rule
	namespaces  func(string) labels.Set
}

// filtersAffinity reports whether the profile has the filter that is computed here.
func (r replayed) filtersAffinity() bool { return r.enabled(names.InterPodAffinity) }

// namespaceLabels returns the labels of namespaces, which terms may select.
func (s *Snapshot) namespaceLabels() func(string) labels.Set {
	lister := s.informers.Core().V1().Namespaces().Lister()
	return func(name string) labels.Set {
		namespace, err := lister.Get(name)
		if err != nil {
			return nil // the plugin assumes none as well
		}
		return namespace.Labels
	}
}

func (v *vacancy) matches(t *fwk.AffinityTerm, pod *corev1.Pod) bool {
	return t.Matches(pod, v.namespaces(pod.Namespace))
}

// matchesAll reports whether one pod matches all terms.
func (v *vacancy) matchesAll(terms []fwk.AffinityTerm, pod *corev1.Pod) bool {
	for i := range terms {
		if !v.matches(&terms[i], pod) {
			return false
		}
	}
	return true
}

// affinity adds the domains that the replacement's required affinity opens. Each term requires a domain with a pod that matches all
// terms. Where there is no such pod, one that matches itself may run wherever the labels of the domains are.
func (v *vacancy) affinity() {
	terms := infoOf(v.next).GetRequiredAffinityTerms()
	if len(terms) == 0 {
		return
	}
	rules, found := v.opened(terms)
	decides := slices.ContainsFunc(v.leaving, func(p *corev1.Pod) bool { return v.matchesAll(terms, p) })
	missing := slices.ContainsFunc(rules, func(r rule) bool { return len(r.values) == 0 })
	switch {
	case found && missing, !found && !v.matchesAll(terms, v.next):
		v.unable("no pod matches the required pod affinity of the replacement once the replica is gone, so a new node would not fit either")
	case !found, decides && !overHosts(terms): // a host that only the replica opens is no candidate
		v.Affinity, v.rules = true, append(v.rules, rules...)
	default:
		v.kept = append(v.kept, rules...)
	}
}

// opened returns the domains of each term that have a pod that matches all terms, and whether there are any.
func (v *vacancy) opened(terms []fwk.AffinityTerm) (rules []rule, found bool) {
	for i := range terms {
		rules = append(rules, rule{key: terms[i].TopologyKey, only: true, values: map[string]bool{}})
	}
	for _, node := range v.after.nodes {
		if !slices.ContainsFunc(node.GetPods(), func(p fwk.PodInfo) bool { return v.matchesAll(terms, p.GetPod()) }) {
			continue
		}
		for i := range rules {
			rules[i].add(node.Node())
			found = found || len(rules[i].values) > 0
		}
	}
	return rules, found
}

func overHosts(terms []fwk.AffinityTerm) bool {
	return !slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool { return t.TopologyKey != corev1.LabelHostname })
}

// antiAffinity adds the domains that the replacement's required anti-affinity closes.
func (v *vacancy) antiAffinity() {
	for i, t := range infoOf(v.next).GetRequiredAntiAffinityTerms() {
		r := rule{key: t.TopologyKey, values: map[string]bool{}}
		for _, node := range v.after.nodes {
			if value, there := node.Node().Labels[r.key]; there && !r.values[value] {
				r.values[value] = slices.ContainsFunc(node.GetPods(), func(p fwk.PodInfo) bool { return v.matches(&t, p.GetPod()) })
			}
		}
		maps.DeleteFunc(r.values, func(_ string, closed bool) bool { return !closed })
		others := rule{key: r.key, values: map[string]bool{}}
		if v.matches(&t, v.next) {
			for _, node := range v.held {
				others.add(v.now.nodes[node].Node())
			}
		}
		v.rules = append(v.rules, others)
		if r.key != corev1.LabelHostname && slices.ContainsFunc(v.leaving, func(p *corev1.Pod) bool { return v.matches(&t, p) }) {
			v.AntiAffinity, v.rules = append(v.AntiAffinity, i), append(v.rules, r)
		} else { // the host of the replica is no candidate
			v.kept = append(v.kept, r)
		}
	}
}

// add adds the domain of a node.
func (r *rule) add(node *corev1.Node) {
	if value, there := node.Labels[r.key]; there {
		r.values[value] = true
	}
}

// existing adds the domains that the required anti-affinity of pods that are there closes. It is symmetrical: it selects by the labels
// of the pod that comes. Where it selects the placeholder and not the replacement, or is that of the replica, no node affinity helps.
func (v *vacancy) existing() {
	closed := closedTo(v.after, v.next, v.namespaces(v.next.Namespace))
	holder := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: v.next.Namespace, Labels: v.own.Labels}}
	excluding := closedTo(v.now, holder, v.namespaces(holder.Namespace))
	for _, key := range slices.Sorted(maps.Keys(excluding)) { // the first of them is in the message, which must not change by chance
		for _, value := range slices.Sorted(maps.Keys(excluding[key].values)) {
			if key != corev1.LabelHostname && (closed[key] == nil || !closed[key].values[value]) {
				v.unable("the required pod anti-affinity of a pod in %s %s excludes it, but not the replacement", key, value)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(closed)) {
		v.rules = append(v.rules, *closed[key])
	}
}

// closedTo returns the domains in which pods exclude one that comes, by topology key.
func closedTo(s *state, pod *corev1.Pod, namespace labels.Set) map[string]*rule {
	closed := map[string]*rule{}
	for _, node := range s.antiAffinity {
		for _, p := range node.GetPodsWithRequiredAntiAffinity() {
			for _, t := range p.GetRequiredAntiAffinityTerms() {
				if !t.Matches(pod, namespace) {
					continue
				}
				if closed[t.TopologyKey] == nil {
					closed[t.TopologyKey] = &rule{key: t.TopologyKey, values: map[string]bool{}}
				}
				closed[t.TopologyKey].add(node.Node())
			}
		}
	}
	return closed
}

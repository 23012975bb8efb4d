// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/policies/score"
	"berth.dev/berth/plugins/resourcelimit"
)

// preferSpotWeight is the weight of the preference for spot nodes that the preset Cost implies, the highest that a preference
// of a pod can have.
const preferSpotWeight = 100

// parse parses the preferences of the pod for other pods and against them.
func (a *attempt) parse() (err error) {
	affinity := a.pod.Spec.Affinity
	if affinity == nil {
		return nil
	}
	if pods := affinity.PodAffinity; pods != nil {
		a.near, err = fwk.GetWeightedAffinityTerms(a.pod, pods.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if pods := affinity.PodAntiAffinity; pods != nil && err == nil {
		a.apartFrom, err = fwk.GetWeightedAffinityTerms(a.pod, pods.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return err
}

// preferred reads which shares of the preferences for nodes and for other pods each node meets.
func (a *attempt) preferred() {
	nodes, total := a.preferredNodes()
	terms := a.near
	pods := a.met(terms)
	var weights int64
	for i := range terms {
		weights += int64(terms[i].Weight)
	}
	for i := range a.nodes {
		f := &a.table.facts[i]
		f.PreferredNodes = score.Share(nodes[i], total)
		f.PreferredPods = f.PreferredNodes
		if weights > 0 {
			f.PreferredPods = score.Share(pods[i], weights)
		}
		if total == 0 {
			f.PreferredNodes = f.PreferredPods
		}
	}
}

// preferredNodes returns the weights of the preferences for nodes that each node meets, and the sum of all: those of the pod,
// of its ResourceLimit and of the preset Cost.
func (a *attempt) preferredNodes() (met []int64, total int64) {
	met = make([]int64, len(a.nodes))
	var own *nodeaffinity.PreferredSchedulingTerms
	if affinity := a.pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		preferred := affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		for i := range preferred {
			total += int64(preferred[i].Weight)
		}
		// A term that cannot be parsed is one that no node meets, as for the plugin NodeAffinity in its own score.
		own, _ = nodeaffinity.NewPreferredSchedulingTerms(preferred)
	}
	var classifier *capacity.Classifier
	if a.governor.rules.PreferSpot {
		classifier = a.pl.classifier()
		total += preferSpotWeight
	}
	limit := resourcelimit.Preferring(a.state, a.pod)
	if limit != nil {
		total += limit.Weight()
	}
	for i, n := range a.nodes {
		node := n.Node()
		if own != nil {
			met[i] += own.Score(node)
		}
		if classifier != nil {
			if t, _ := classifier.Classify(node); t == capacity.Spot {
				met[i] += preferSpotWeight
			}
		}
		if limit != nil {
			met[i] += limit.Score(node)
		}
	}
	return met, total
}

// met returns the weights of the terms that each feasible node meets: a pod that matches the term runs in its domain.
func (a *attempt) met(terms []fwk.WeightedAffinityTerm) []int64 {
	met := make([]int64, len(a.nodes))
	for t := range terms {
		term := &terms[t]
		domains := map[string]bool{}
		for _, n := range a.all {
			domain, has := n.Node().Labels[term.TopologyKey]
			if has && !domains[domain] && a.anyMatches(n.GetPods(), &term.AffinityTerm) {
				domains[domain] = true
			}
		}
		for i, n := range a.nodes {
			if domain, has := n.Node().Labels[term.TopologyKey]; has && domains[domain] {
				met[i] += int64(term.Weight)
			}
		}
	}
	return met
}

// anyMatches reports whether one of the pods matches a term of this pod. Namespace labels are those of the other pod's
// namespace.
func (a *attempt) anyMatches(pods []fwk.PodInfo, term *fwk.AffinityTerm) bool {
	for _, p := range pods {
		if pod := p.GetPod(); pod.DeletionTimestamp == nil && term.Matches(pod, a.namespaceLabels(pod.Namespace, term)) {
			return true
		}
	}
	return false
}

// namespaceLabels returns the labels of a namespace where a term selects namespaces by label, nil where it does not.
func (a *attempt) namespaceLabels(namespace string, term *fwk.AffinityTerm) labels.Set {
	if term.NamespaceSelector.Empty() || term.NamespaceSelector == labels.Nothing() {
		return nil
	}
	read, ok := a.namespaces[namespace]
	if !ok {
		if ns, err := a.pl.namespaces.Get(namespace); err == nil { // as for InterPodAffinity, one that is not found has no labels
			read = ns.Labels
		}
		if a.namespaces == nil {
			a.namespaces = map[string]labels.Set{}
		}
		a.namespaces[namespace] = read
	}
	return read
}

// apart reads how well nodes meet the preferences to be apart, of the pod and of those that run.
func (a *attempt) apart() {
	terms := a.apartFrom
	violated := a.met(terms)
	var weights int64
	for i := range terms {
		weights += int64(terms[i].Weight)
	}
	repelled := a.repelled()
	var most int64
	for i := range repelled {
		most = max(most, repelled[i])
	}
	for i := range a.nodes {
		f := &a.table.facts[i]
		f.Separation = score.Max * (1 - score.Share(violated[i], weights))
		f.Repelled = score.Max * score.Share(repelled[i], most)
	}
}

// repelled returns, for each feasible node, the weights of the preferences of running pods that this pod would violate there.
func (a *attempt) repelled() []int64 {
	sums := make([]int64, len(a.nodes))
	others, err := a.pl.handle.SnapshotSharedLister().NodeInfos().HavePodsWithAffinityList()
	if err != nil || len(others) == 0 {
		return sums
	}
	byKey := map[string]map[string]int64{}
	for _, n := range others {
		for _, p := range n.GetPodsWithAffinity() {
			if p.GetPod().DeletionTimestamp == nil {
				a.addRepelled(byKey, n.Node().Labels, p.GetPreferredAntiAffinityTerms())
			}
		}
	}
	for i, n := range a.nodes {
		for key, domains := range byKey {
			if domain, has := n.Node().Labels[key]; has {
				sums[i] += domains[domain]
			}
		}
	}
	return sums
}

// addRepelled adds the weights of the terms of a running pod that match this pod, by the domain of the running pod's node.
func (a *attempt) addRepelled(
	byKey map[string]map[string]int64, labels map[string]string, terms []fwk.WeightedAffinityTerm,
) {
	for i := range terms {
		term := &terms[i]
		domain, has := labels[term.TopologyKey]
		if !has || !term.Matches(a.pod, a.namespaceLabels(a.pod.Namespace, &term.AffinityTerm)) {
			continue
		}
		if byKey[term.TopologyKey] == nil {
			byKey[term.TopologyKey] = map[string]int64{}
		}
		byKey[term.TopologyKey][domain] += int64(term.Weight)
	}
}

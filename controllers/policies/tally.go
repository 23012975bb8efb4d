// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"fmt"
	"strings"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/policies/registry"
)

// named is how many older policies a message names.
const named = 5

// usage is what a count of a namespace found about a policy. Two are equal if they give the same status.
type usage struct {
	policy *registry.Policy
	// tooMany is set if the policy is not among the oldest ones of its namespace, which govern pods.
	tooMany bool
	// pods is the number of pods that it governs.
	pods int
	// older names the policies that govern pods which this one selects too, "" if there are none.
	older string
}

// tally counts the pods that each policy of a namespace governs, by the name of the policy. The policies are in the order of the
// registry, oldest first. Only those that can govern pods are matched with pods. It is a pure function.
func tally(oldestFirst []*registry.Policy, pods []*clusterstate.Pod) map[string]usage {
	governing := registry.Affordable(oldestFirst)
	counts := make([]int, len(governing))
	conflicts := make([]positions, len(governing))
	for _, s := range bySet(pods) {
		first := -1
		for i, p := range governing {
			switch {
			case !p.Selects(s.labels):
			case first < 0:
				first = i
				counts[i] += s.pods
			default:
				conflicts[i][first] = true
			}
		}
	}
	all := make(map[string]usage, len(oldestFirst))
	for i, p := range governing {
		all[p.Object.Name] = usage{policy: p, pods: counts[i], older: conflicts[i].names(governing)}
	}
	for _, p := range oldestFirst[len(governing):] {
		all[p.Object.Name] = usage{policy: p, tooMany: true}
	}
	return all
}

// positions are places in the list of the policies that can govern pods.
type positions [registry.MaxPerNamespace]bool

// names lists the policies at the positions, the oldest first.
func (p *positions) names(governing []*registry.Policy) string {
	var names []string
	more := 0
	for i, in := range p {
		switch {
		case !in:
		case len(names) < named:
			names = append(names, governing[i].Object.Name)
		default:
			more++
		}
	}
	text := strings.Join(names, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// labelSet is a set of labels and the number of pods that have it.
type labelSet struct {
	labels map[string]string
	pods   int
}

// bySet groups the pods that are not finished by their labels. The cluster state keeps a set of labels once, so that most pods
// of a workload are one set.
func bySet(pods []*clusterstate.Pod) map[clusterstate.LabelSet]*labelSet {
	sets := map[clusterstate.LabelSet]*labelSet{}
	for _, p := range pods {
		if p.Finished {
			continue
		}
		key := p.LabelSet()
		if sets[key] == nil {
			sets[key] = &labelSet{labels: p.Labels}
		}
		sets[key].pods++
	}
	return sets
}

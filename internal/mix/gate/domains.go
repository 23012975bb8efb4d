// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/nodeselector"
	"berth.dev/berth/internal/mix/domains"
)

// maxAdded is how many requirements Require adds at most: two for each limit.
const maxAdded = 2 * domains.MaxLimits

// Require has the nodes of a pod meet requirements about domains, and notes how many they are. It must be the last change of the node
// affinity of a pod whose gate is removed.
func Require(pod *corev1.Pod, requirements []corev1.NodeSelectorRequirement) {
	delete(pod.Annotations, v1alpha1.DomainRequirementsAnnotation) // a copy of another pod's
	if len(requirements) == 0 {
		return
	}
	narrow(&pod.Spec, requirements...)
	Annotate(pod, map[string]string{v1alpha1.DomainRequirementsAnnotation: strconv.Itoa(len(requirements))})
}

// Required returns the requirements that Require added to a pod.
func Required(pod *corev1.Pod) []corev1.NodeSelectorRequirement {
	n, nodes := added(pod), requiredNodes(&pod.Spec)
	if n == 0 || nodes == nil {
		return nil
	}
	for i := range nodes.NodeSelectorTerms {
		if all := nodes.NodeSelectorTerms[i].MatchExpressions; len(all) >= n {
			return all[len(all)-n:]
		}
	}
	return nil
}

// Unrequire reverts Avoid and Require in a copy of the spec of a pod, which then has only the constraints of its successor. Call it before
// Label.Unlimit.
func Unrequire(spec *corev1.PodSpec, of *corev1.Pod) {
	n, nodes := added(of), requiredNodes(spec)
	switch {
	case nodes != nil && avoided(nodes, of): // it had none
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
		return
	case n == 0 || nodes == nil:
		return
	}
	for i := range nodes.NodeSelectorTerms {
		if term := &nodes.NodeSelectorTerms[i]; len(term.MatchExpressions) >= n {
			term.MatchExpressions = term.MatchExpressions[:len(term.MatchExpressions)-n]
			if nodeselector.Empty(term) {
				nodes.NodeSelectorTerms = nil // it was the only one, and all that it had
				break
			}
		}
	}
	if len(nodes.NodeSelectorTerms) == 0 {
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
	}
}

// added is how many requirements Require added to each term of a pod whose gate was removed.
func added(pod *corev1.Pod) int {
	text, there := pod.Annotations[v1alpha1.DomainRequirementsAnnotation]
	if !there {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 8)
	if _, ungated := LimitedTo(pod); err != nil || !ungated || n > maxAdded {
		return 0 // a tenant wrote it
	}
	return int(n)
}

// requiredNodes returns the required node affinity of a pod, nil for none.
func requiredNodes(spec *corev1.PodSpec) *corev1.NodeSelector {
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return nil
	}
	return spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// narrow adds requirements to every term of the required node affinity, except empty terms.
func narrow(spec *corev1.PodSpec, requirements ...corev1.NodeSelectorRequirement) {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: slices.Clone(requirements)}},
		}
		return
	}
	for i := range required.NodeSelectorTerms {
		if term := &required.NodeSelectorTerms[i]; !nodeselector.Empty(term) {
			term.MatchExpressions = append(slices.Clip(term.MatchExpressions), requirements...) // the array may be shared
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// hard are the spread constraints that forbid nodes.
func hard(pod *corev1.Pod) (list []*corev1.TopologySpreadConstraint) {
	for i := range pod.Spec.TopologySpreadConstraints {
		if c := &pod.Spec.TopologySpreadConstraints[i]; c.WhenUnsatisfiable == corev1.DoNotSchedule {
			list = append(list, c)
		}
	}
	return list
}

// closedBy counts as the plugin PodTopologySpread does in PreFilter and Filter of Kubernetes 1.37.
func closedBy(c *corev1.TopologySpreadConstraint, pod *corev1.Pod, nodes []fwk.NodeInfo, held []int) map[string]bool {
	selector := selectorOf(c, pod.Labels)
	self := 0
	if selector.Matches(labels.Set(pod.Labels)) {
		self = 1
	}
	counts := map[string]int{}
	for i, node := range nodes {
		if !counted(c, pod, node.Node()) {
			continue
		}
		counts[node.Node().Labels[c.TopologyKey]] += held[i]*self + matching(selector, pod.Namespace, node)
	}
	if len(counts) == 0 {
		return nil
	}
	least := slices.Min(slices.Collect(maps.Values(counts)))
	if c.MinDomains != nil && len(counts) < int(*c.MinDomains) {
		least = 0
	}
	closed := map[string]bool{}
	for value, n := range counts {
		if n+self-least > int(c.MaxSkew) {
			closed[value] = true
		}
	}
	return closed
}

// selectorOf is the selector of a constraint with the pod's own values of its label keys.
func selectorOf(c *corev1.TopologySpreadConstraint, own map[string]string) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return labels.Nothing()
	}
	set := labels.Set{}
	for _, key := range c.MatchLabelKeys {
		if value, there := own[key]; there {
			set[key] = value
		}
	}
	added, _ := set.AsSelector().Requirements()
	return selector.Add(added...)
}

// counted reports whether a node is in a domain of a constraint.
func counted(c *corev1.TopologySpreadConstraint, pod *corev1.Pod, node *corev1.Node) bool {
	for _, one := range hard(pod) {
		if _, there := node.Labels[one.TopologyKey]; !there {
			return false
		}
	}
	if c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor {
		if match, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !match {
			return false
		}
	}
	if c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor {
		_, untolerated := v1helper.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, pod.Spec.Tolerations,
			func(t *corev1.Taint) bool {
				return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
			}, true)
		return !untolerated
	}
	return true
}

// matching is how many pods of a node a selector counts. Those that terminate do not count.
func matching(selector labels.Selector, namespace string, node fwk.NodeInfo) (n int) {
	for _, info := range node.GetPods() {
		p := info.GetPod()
		if p.Namespace == namespace && p.DeletionTimestamp == nil && selector.Matches(labels.Set(p.Labels)) {
			n++
		}
	}
	return n
}

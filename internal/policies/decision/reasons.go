// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// The names and messages of kube-scheduler's filters. They are repeated here because clients read records too, and must not
// link the scheduler for it. A test compares them with the filters.
const (
	nodeResourcesFit  = "NodeResourcesFit"
	nodeAffinity      = "NodeAffinity"
	taintToleration   = "TaintToleration"
	interPodAffinity  = "InterPodAffinity"
	podTopologySpread = "PodTopologySpread"
	nodeUnschedulable = "NodeUnschedulable"

	insufficientCPU     = "Insufficient cpu"
	insufficientMemory  = "Insufficient memory"
	insufficientStorage = "Insufficient ephemeral-storage"
	// affinityOrSelector does not show which of the two the node does not match.
	affinityOrSelector = "node(s) didn't match Pod's node affinity/selector"
	antiAffinity       = "node(s) didn't match pod anti-affinity rules"
	antiAffinityOfPods = "node(s) didn't satisfy existing pods anti-affinity rules"
)

// resourceOf are the resources of the messages of NodeResourcesFit that have a reason of their own.
var resourceOf = map[string]Reason{
	insufficientCPU: InsufficientCPU, insufficientMemory: InsufficientMemory, insufficientStorage: InsufficientDisk,
}

// ReasonOf returns the reason for which a plugin rejected a node with a message, and for TaintWithoutToleration the key of the
// taint.
func ReasonOf(plugin, message string, pod *corev1.Pod, node *corev1.Node) (reason Reason, key string) {
	switch plugin {
	case nodeResourcesFit:
		return cmp.Or(resourceOf[message], Custom), ""
	case nodeAffinity:
		if message == affinityOrSelector && !selects(pod.Spec.NodeSelector, node.Labels) {
			return NodeSelectorMismatch, ""
		}
		return NodeAffinityMismatch, ""
	case taintToleration:
		return reasonOfTaint(untolerated(pod, node).Key)
	case nodeUnschedulable:
		return NodeUnschedulable, ""
	case interPodAffinity:
		if message == antiAffinity || message == antiAffinityOfPods {
			return PodAntiAffinityViolation, ""
		}
		return PodAffinityViolation, ""
	case podTopologySpread:
		return TopologySpreadViolation, ""
	}
	return Custom, ""
}

func reasonOfTaint(taint string) (reason Reason, key string) {
	switch taint {
	case corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable:
		return NodeNotReady, ""
	case corev1.TaintNodeUnschedulable: // a cordoned node has it too
		return NodeUnschedulable, ""
	}
	return TaintWithoutToleration, taint
}

// narrowed returns the reason for which filters were not tried on a node: a PreFilter named others, and the status does not name
// it. NodeAffinity does so for the names of nodes.
func narrowed(pod *corev1.Pod, required *nodeaffinity.RequiredNodeAffinity, node *corev1.Node) Reason {
	if !selects(pod.Spec.NodeSelector, node.Labels) {
		return NodeSelectorMismatch
	}
	if match, err := required.Match(node); err == nil && !match {
		return NodeAffinityMismatch
	}
	return Custom
}

// selects is without allocations: it runs for every node that has been rejected.
func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if has, found := labels[key]; !found || has != value {
			return false
		}
	}
	return true
}

// untolerated returns the first taint of a node that rejects a pod.
func untolerated(pod *corev1.Pod, node *corev1.Node) corev1.Taint {
	// Tolerations with the operators Lt and Gt count only with a feature gate. If all taints are tolerated with it, the filter
	// rejected the node without it.
	for _, comparison := range []bool{true, false} {
		taint, found := corev1helpers.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, pod.Spec.Tolerations, repels,
			comparison)
		if found {
			return taint
		}
	}
	return corev1.Taint{}
}

func repels(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }

// Rejected is a node that a filter rejected, with one of its reasons.
type Rejected struct {
	Node            fwk.NodeInfo
	Plugin, Message string
}

// group is a rejection with the most that one of its nodes has free of a resource.
type group struct {
	Rejection
	plugin string
	free   int64
}

// class identifies a group: its reason and, for TaintWithoutToleration, the key of the taint. Of rejections with the reason
// Custom, each plugin and message is a class: they have nothing else in common.
type class struct {
	reason               Reason
	key, plugin, message string
}

// Aggregate groups rejected nodes by reason, the most frequent reason first. Rejected has an entry for each node and reason.
func Aggregate(pod *corev1.Pod, rejected []Rejected) []Rejection {
	if len(rejected) == 0 {
		return nil
	}
	groups := map[class]*group{}
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	for _, r := range rejected {
		node := r.Node.Node()
		c := class{}
		if c.reason, c.key = ReasonOf(r.Plugin, r.Message, pod, node); r.Plugin == "" {
			c.reason = narrowed(pod, &required, node)
		}
		if c.reason == Custom {
			c.plugin, c.message = r.Plugin, r.Message
		}
		g := groups[c]
		if g == nil {
			g = &group{Rejection: Rejection{Reason: c.reason, Key: c.key}, plugin: c.plugin}
			groups[c] = g
		}
		g.add(node.Name, r)
	}
	list := make([]*group, 0, len(groups))
	for _, g := range groups {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Key, b.Key),
			cmp.Compare(a.plugin, b.plugin), cmp.Compare(a.Message, b.Message))
	})
	list = list[:min(len(list), maxRejections)]
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	out := make([]Rejection, len(list))
	for i, g := range list {
		g.quantities(requests)
		out[i] = g.Rejection
	}
	return out
}

// add counts a node. The example is the first by name, so that the same rejections in another order have the same result.
func (g *group) add(name string, r Rejected) {
	if g.Nodes++; g.Nodes == 1 || name < g.Example {
		g.Example, g.Message = name, r.Message
	}
	g.free = max(g.free, free(g.Reason, r.Node))
}

// free is what a node has free of the resource of a reason.
func free(reason Reason, node fwk.NodeInfo) int64 {
	allocatable, requested := node.GetAllocatable(), node.GetRequested()
	switch reason {
	case InsufficientCPU:
		return allocatable.GetMilliCPU() - requested.GetMilliCPU()
	case InsufficientMemory:
		return allocatable.GetMemory() - requested.GetMemory()
	case InsufficientDisk:
		return allocatable.GetEphemeralStorage() - requested.GetEphemeralStorage()
	}
	return 0
}

// quantities sets what the pod requests and what is available, for an Insufficient reason.
func (g *group) quantities(requests corev1.ResourceList) {
	switch g.Reason {
	case InsufficientCPU:
		g.Requested, g.Available = requests.Cpu().String(), resource.NewMilliQuantity(g.free, resource.DecimalSI).String()
	case InsufficientMemory:
		g.Requested, g.Available = requests.Memory().String(), resource.NewQuantity(g.free, resource.BinarySI).String()
	case InsufficientDisk:
		g.Requested, g.Available = requests.StorageEphemeral().String(), resource.NewQuantity(g.free, resource.BinarySI).String()
	}
}

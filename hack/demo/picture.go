// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// podCPU is what every pod of the demo requests, in millicores: the capacity of a node is counted in pods.
const podCPU = 500

// picture is the state in the API server at one moment.
type picture struct {
	nodes []node
	pods  []pod // neither terminating nor finished
}

type node struct {
	name        string
	labels      map[string]string
	is          capacity.Type
	rule        string // the node rule that matches, "" if none does
	podCapacity int    // pods
	cordoned    bool
	accepts     bool // ready, and not cordoned
}

type pod struct {
	name, app, node string
	uid             types.UID
	revision        string
	slot            int           // split.NoSlot while its annotations have none
	slotType        capacity.Type // the type of its slot, by its annotation
	on              capacity.Type // the type of its node
	ready           bool
	waits           string // why it is unschedulable, "" if it is not
	annotations     map[string]string
}

func (p *pod) bound() bool { return p.node != "" }

// borrows reports whether the pod runs on the other type than that of its slot.
func (p *pod) borrows() bool { return p.bound() && p.slot != split.NoSlot && p.on != p.slotType }

// take returns a picture of API objects.
func take(nodes []corev1.Node, pods []corev1.Pod, classifier *capacity.Classifier) picture {
	var pic picture
	on := map[string]capacity.Type{}
	for i := range nodes {
		n := &nodes[i]
		is, rule := classifier.Classify(n)
		on[n.Name] = is
		pic.nodes = append(pic.nodes, node{
			name: n.Name, labels: n.Labels, is: is, rule: rule,
			podCapacity: int(n.Status.Allocatable.Cpu().MilliValue() / podCPU),
			cordoned:    n.Spec.Unschedulable, accepts: capacity.Accepting(n),
		})
	}
	slices.SortFunc(pic.nodes, func(a, b node) int {
		return cmp.Or(cmp.Compare(order(a.is), order(b.is)), cmp.Compare(a.name, b.name))
	})
	for i := range pods {
		if p := &pods[i]; p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			pic.pods = append(pic.pods, podOf(p, on[p.Spec.NodeName]))
		}
	}
	slices.SortFunc(pic.pods, func(a, b pod) int {
		return cmp.Or(cmp.Compare(a.app, b.app), cmp.Compare(a.slot, b.slot), cmp.Compare(a.name, b.name))
	})
	return pic
}

// order puts spot nodes first and nodes of unknown type last.
func order(t capacity.Type) int {
	return map[capacity.Type]int{capacity.Spot: 0, capacity.OnDemand: 1, capacity.Unknown: 2}[t]
}

func podOf(p *corev1.Pod, on capacity.Type) pod {
	out := pod{
		name: p.Name, app: p.Labels["app"], node: p.Spec.NodeName, uid: p.UID, on: on,
		revision: p.Labels["pod-template-hash"], slot: split.NoSlot, annotations: p.Annotations,
	}
	if slot, ok := governing.ClaimedSlot(p); ok {
		out.slot = slot
	}
	// An invalid capacity type stays unknown, and then differs from the slot's.
	out.slotType, _ = capacity.ParseType(p.Annotations[v1alpha1.CapacityTypeAnnotation])
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady:
			out.ready = c.Status == corev1.ConditionTrue
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable:
			out.waits = c.Message
		}
	}
	return out
}

// of returns the pods of an app.
func (pic picture) of(app string) []pod {
	return slices.DeleteFunc(slices.Clone(pic.pods), func(p pod) bool { return p.app != app })
}

// on returns the pods on a node.
func (pic picture) on(name string) []pod {
	return slices.DeleteFunc(slices.Clone(pic.pods), func(p pod) bool { return p.node != name })
}

// capacities returns how many pods the schedulable nodes of a type can run, and how many more.
func (pic picture) capacities(t capacity.Type) (podCapacity, free int) {
	for _, n := range pic.nodes {
		if n.is == t && n.accepts {
			podCapacity += n.podCapacity
			free += n.podCapacity - len(pic.on(n.name))
		}
	}
	return podCapacity, free
}

// count counts pods by the type of their node.
func count(pods []pod) (c split.Count, pending int) {
	for i := range pods {
		if pods[i].bound() {
			c.Add(pods[i].on)
		} else {
			pending++
		}
	}
	return c, pending
}

// aboutNodes is the part of a scheduler message that is about nodes, without the part about preemption.
func aboutNodes(message string) string {
	head, rest, _ := strings.Cut(message, ". ")
	if rest == "" {
		return message
	}
	return head + ". ..."
}

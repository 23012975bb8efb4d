// SPDX-License-Identifier: Apache-2.0

// Package gate is about pods with the scheduling gate of Berth: what limits
// such a pod to its capacity type in a way that every scheduler and autoscaler
// understands, and what a pod says of the slot that it was given. It is pure.
package gate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/nodeselector"
	"berth.dev/berth/internal/mix/capacity"
)

// Has reports whether a pod has the gate: whether it waits for its slot.
func Has(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == v1alpha1.CapacityMixGate })
}

// Made reports whether a pod was made with the gate, so that its successor will
// be as well: it has the gate, was opened, or was released without a slot. What
// a template says of that does not count: it has no UID.
func Made(pod *corev1.Pod) bool {
	_, opened := Opened(pod)
	return opened || Has(pod) || claim(pod.Annotations, string(pod.UID)) == v1alpha1.GateOpenedNoLeader
}

// Release has a change of a pod say that its gate is opened without a slot,
// since no scheduler leads.
func Release(pod *corev1.Pod) {
	Annotate(pod, map[string]string{
		v1alpha1.GateOpenedAnnotation: v1alpha1.GateOpenedNoLeader,
		v1alpha1.ClaimAnnotation:      string(pod.UID) + "/" + v1alpha1.GateOpenedNoLeader,
	})
}

// Opened returns the capacity type that a pod was limited to when its gate was
// opened. ok is false for a pod that was never gated, still is, was let go
// without a slot, or carries a copy of what another pod was given.
func Opened(pod *corev1.Pod) (t capacity.Type, ok bool) {
	return OpenedAs(pod.Annotations, string(pod.UID))
}

// OpenedAs is Opened for the annotations of a pod with a UID.
func OpenedAs(annotations map[string]string, uid string) (t capacity.Type, ok bool) {
	text := claim(annotations, uid)
	if text == "" { // most pods
		return capacity.Unknown, false
	}
	t, err := capacity.ParseType(text)
	return t, err == nil
}

// claim returns what the claim annotation has for the pod with a UID, "" if it
// has nothing: it is a copy of another pod's, or a template's, which has no UID.
func claim(annotations map[string]string, uid string) string {
	text, ofPod := strings.CutPrefix(annotations[v1alpha1.ClaimAnnotation], uid)
	text, whole := strings.CutPrefix(text, "/")
	if uid == "" || !ofPod || !whole {
		return ""
	}
	return text
}

// ClaimOf is the value of the claim annotation of a pod that is limited to a type.
func ClaimOf(pod *corev1.Pod, t capacity.Type) string { return string(pod.UID) + "/" + t.String() }

// Label is the node label that says the capacity type of nodes in a cluster. An
// empty value stands for nodes without the label; at most one is empty.
type Label struct {
	Key, Spot, OnDemand string
}

// value returns the label's value on nodes of a type.
func (l Label) value(t capacity.Type) string {
	if t == capacity.Spot {
		return l.Spot
	}
	return l.OnDemand
}

// Limit limits a pod to nodes of a type. On a pod with a gate the API server
// allows what it does: entries added to nodeSelector, and expressions added to
// every term of the required node affinity but those that are empty, which match
// no node and must not come to match some.
func (l Label) Limit(spec *corev1.PodSpec, t capacity.Type) {
	if v := l.value(t); v != "" {
		if spec.NodeSelector == nil {
			spec.NodeSelector = map[string]string{}
		}
		spec.NodeSelector[l.Key] = v
		return
	}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	absent := corev1.NodeSelectorRequirement{Key: l.Key, Operator: corev1.NodeSelectorOpDoesNotExist}
	required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{absent}}},
		}
		return
	}
	for i := range required.NodeSelectorTerms {
		if term := &required.NodeSelectorTerms[i]; !nodeselector.Empty(term) {
			term.MatchExpressions = append(slices.Clip(term.MatchExpressions), absent) // the array may be another's
		}
	}
}

// Unlimit takes from a pod what Limit gave it: what its successor, which will
// have a gate again, requests itself.
func (l Label) Unlimit(spec *corev1.PodSpec) {
	delete(spec.NodeSelector, l.Key)
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return
	}
	required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return
	}
	required.NodeSelectorTerms = slices.DeleteFunc(required.NodeSelectorTerms, func(term corev1.NodeSelectorTerm) bool {
		return len(term.MatchFields) == 0 && len(term.MatchExpressions) > 0 &&
			!slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool { return r.Key != l.Key })
	})
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		term.MatchExpressions = slices.DeleteFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool { return r.Key == l.Key })
	}
	if len(required.NodeSelectorTerms) == 0 {
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
	}
}

// Tolerate adds the tolerations that a pod does not have yet.
func Tolerate(spec *corev1.PodSpec, tolerations []corev1.Toleration) {
	for i := range tolerations {
		t := &tolerations[i]
		if !slices.ContainsFunc(spec.Tolerations, func(own corev1.Toleration) bool { return own.MatchToleration(t) }) {
			spec.Tolerations = append(spec.Tolerations, *t)
		}
	}
}

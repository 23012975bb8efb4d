// SPDX-License-Identifier: Apache-2.0

// Package gate limits pods with Berth's scheduling gate to their capacity type, by fields that every scheduler and
// autoscaler supports, and reads the slot and the type that such a pod has. It is pure.
package gate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
)

// Has reports whether a pod has the gate, that is, waits for its slot.
func Has(pod *corev1.Pod) bool {
	return slices.ContainsFunc(
		pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == v1alpha1.CapacityMixGate },
	)
}

// Last reports whether the gate is the only one that a pod has left. Until then the pod gets no slot: it is unknown when, and in which
// order, others remove theirs, and a slot that is held for a pod that cannot run is missing to its siblings.
func Last(pod *corev1.Pod) bool { return len(pod.Spec.SchedulingGates) == 1 && Has(pod) }

// HasOthers reports whether a pod has gates of others.
func HasOthers(pod *corev1.Pod) bool {
	return slices.ContainsFunc(
		pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name != v1alpha1.CapacityMixGate },
	)
}

// Made reports whether a pod was created with the gate, so that its successor will be too: it has the gate, or the gate
// was removed, with or without a slot. Annotations in a pod template do not count: it has no UID.
func Made(pod *corev1.Pod) bool {
	_, ungated := LimitedTo(pod)
	return ungated || Has(pod) || claim(pod.Annotations, string(pod.UID)) == v1alpha1.UngateReasonNoLeader
}

// ByAffinity reports whether the node affinity of a pod decides about its nodes: it was limited to a type as its gate was removed, or will
// be. It is false for a pod whose gate was removed without a slot: that is placed as one that never had the gate.
func ByAffinity(pod *corev1.Pod) bool {
	_, limited := LimitedTo(pod)
	return limited || Has(pod)
}

// Inherit adds the gate to the replacement of a pod that was created with it, as the webhook of Berth does at least.
func Inherit(next, old *corev1.Pod) {
	if Made(old) && !Has(next) {
		next.Spec.SchedulingGates = append(next.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: v1alpha1.CapacityMixGate})
	}
}

// Release adds to a pod the annotations of a gate that is removed without a slot because no scheduler leads.
func Release(pod *corev1.Pod) {
	Annotate(pod, map[string]string{
		v1alpha1.UngateReasonAnnotation: v1alpha1.UngateReasonNoLeader,
		v1alpha1.ClaimAnnotation:        string(pod.UID) + "/" + v1alpha1.UngateReasonNoLeader,
	})
}

// LimitedTo returns the capacity type that a pod was limited to when its gate was removed. ok is false for a pod that
// never had the gate, still has it, lost it without a slot, or has a copy of another pod's annotation.
func LimitedTo(pod *corev1.Pod) (t capacity.Type, ok bool) {
	return LimitedToBy(pod.Annotations, string(pod.UID))
}

// LimitedToBy is LimitedTo by the annotations of a pod with a UID.
func LimitedToBy(annotations map[string]string, uid string) (t capacity.Type, ok bool) {
	text := claim(annotations, uid)
	if text == "" { // most pods
		return capacity.Unknown, false
	}
	t, err := capacity.ParseType(text)
	return t, err == nil
}

// claim returns the claim annotation of the pod with a UID, without the UID. It is "" if there is none, or if it is a
// copy of another pod's. A pod template has no UID.
func claim(annotations map[string]string, uid string) string {
	text, ofPod := strings.CutPrefix(annotations[v1alpha1.ClaimAnnotation], uid)
	text, whole := strings.CutPrefix(text, "/")
	if uid == "" || !ofPod || !whole {
		return ""
	}
	return text
}

// ClaimOf returns the value of the claim annotation of a pod that is limited to a type.
func ClaimOf(pod *corev1.Pod, t capacity.Type) string { return string(pod.UID) + "/" + t.String() }

// Label is the node label whose value is the capacity type. An empty value matches nodes without the label. At most
// one is empty.
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

// Limit limits a pod to nodes of a type. It makes only changes that the API server allows on a gated pod: it adds
// entries to nodeSelector, and expressions to every term of the required node affinity except empty terms, which match
// no node and must not begin to match some.
func (l Label) Limit(spec *corev1.PodSpec, t capacity.Type) {
	if v := l.value(t); v != "" {
		if spec.NodeSelector == nil {
			spec.NodeSelector = map[string]string{}
		}
		spec.NodeSelector[l.Key] = v
		return
	}
	narrow(spec, corev1.NodeSelectorRequirement{Key: l.Key, Operator: corev1.NodeSelectorOpDoesNotExist})
}

// Unlimit reverts Limit: the pod then has only the constraints of its successor, which will have a gate again.
func (l Label) Unlimit(spec *corev1.PodSpec) {
	delete(spec.NodeSelector, l.Key)
	required := requiredNodes(spec)
	if required == nil {
		return
	}
	required.NodeSelectorTerms = slices.DeleteFunc(required.NodeSelectorTerms, func(term corev1.NodeSelectorTerm) bool {
		return len(term.MatchFields) == 0 && len(term.MatchExpressions) > 0 &&
			!slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool { return r.Key != l.Key })
	})
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		term.MatchExpressions = slices.DeleteFunc(
			term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool { return r.Key == l.Key },
		)
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

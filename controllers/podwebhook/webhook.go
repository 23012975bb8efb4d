// SPDX-License-Identifier: Apache-2.0

// Package podwebhook is the admission webhook that completes new pods: the scheduler, the resources of their ResourceLimit, and the
// gate or the tolerations of their mix. It denies nothing: the scheduler enforces, with the webhook and without.
package podwebhook

import (
	"context"
	"fmt"
	"runtime/debug"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	"berth.dev/berth/internal/limits/registry"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
)

// Path is where the webhook is served.
const Path = "/mutate-pods"

// Resolver finds a pod's limit.
type Resolver interface {
	For(pod *corev1.Pod) registry.Resolution
}

// Handler answers admission reviews.
type Handler struct {
	// Limits finds the limit of each pod, once Synced reports that all are known.
	Limits Resolver
	Synced func() bool
	// SchedulerName is what pods get that name no scheduler; empty for none.
	SchedulerName string
	// Mixes find the mix of a pod; nil leaves mixes to the scheduler.
	Mixes *Mixes
	// Pins reports whether a pod names a capacity type itself.
	Pins func(*corev1.PodSpec) bool
	// Gates gives pods that a mix governs the gate.
	Gates bool
	// Surges reports whether replicas in a namespace are released before they go, if a mix governs them; nil where no one can request the
	// eviction of a pod.
	Surges func(namespace string, m *governing.Mix) bool
}

var _ admission.Handler = &Handler{}

// Handle implements admission.Handler. The pod is always allowed: a denial would count whatever the failurePolicy, unlike an error.
func (h *Handler) Handle(ctx context.Context, req admission.Request) (response admission.Response) {
	outcome := outcomeError
	defer func() {
		if r := recover(); r != nil {
			log.FromContext(ctx).Error(fmt.Errorf("panic: %v", r), "The pod is left as it is", "stack", string(debug.Stack()))
			outcome, response = outcomeError, unchanged("it could not be evaluated")
		}
		admissions.WithLabelValues(outcome).Inc()
	}()
	if req.Operation != admissionv1.Create || req.SubResource != "" || req.Resource.Resource != "pods" {
		outcome = outcomeSkipped
		return admission.Allowed("")
	}
	before := &corev1.Pod{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, before); err != nil {
		log.FromContext(ctx).Info("The pod is left as it is", "reason", err.Error(), "namespace", req.Namespace, "name", req.Name)
		return unchanged("it could not be read")
	}
	if !h.Synced() {
		// A moment after the start. The scheduler enforces the node rules nevertheless.
		outcome = outcomeSkipped
		return unchanged("the ResourceLimits are not read yet")
	}
	pod := before.DeepCopy()
	pod.Namespace = req.Namespace
	outcome, warnings := h.fill(ctx, pod)
	pod.Namespace = before.Namespace
	operations, err := patchOf(req.Object.Raw, before, pod)
	if err != nil {
		log.FromContext(ctx).Info("The pod is left as it is", "reason", err.Error(), "namespace", req.Namespace, "name", req.Name)
		outcome = outcomeError
		return unchanged("it could not be changed")
	}
	response = admission.Allowed("")
	response.Patches, response.Warnings = operations, bounded(warnings)
	return response
}

// fill completes a pod in place. Its namespace must be set.
func (h *Handler) fill(ctx context.Context, pod *corev1.Pod) (outcome string, warnings []string) {
	if mirrors(pod) {
		return outcomeSkipped, nil
	}
	// The limit goes first: its node rules may name a capacity type.
	outcome, warnings = size(pod, h.Limits.For(pod))
	if h.Mixes != nil {
		warnings = append(warnings, h.mix(ctx, pod)...)
	}
	// A gated pod stays with its scheduler, which will see its type and may be the
	// only one that runs. But a limit is enforced by ours.
	if !gate.Has(pod) || outcome != outcomeNone {
		name(pod, h.SchedulerName)
	}
	return outcome, warnings
}

// mix applies the mix of a pod.
func (h *Handler) mix(ctx context.Context, pod *corev1.Pod) (warnings []string) {
	if !h.Mixes.Synced() {
		steered.WithLabelValues(outcomeUnknown).Inc()
		return []string{"the CapacityMixes are not read yet: the pod gets nothing of them"}
	}
	found, invalid := h.Mixes.For(ctx, pod)
	for _, i := range invalid {
		if i.Object == metav1.Object(pod) { // the annotations of an owner would warn its controller, once per pod
			warnings = append(warnings, i.String()+": it is ignored")
		}
	}
	if found == nil {
		found = h.Mixes.Default(pod)
	}
	if found == nil && !gate.Has(pod) {
		// The scheduler that it gets may have a default for it.
		name(pod, h.SchedulerName)
		found = h.Mixes.Default(pod)
	}
	steered.WithLabelValues(steer(pod, found, h.Pins(&pod.Spec), h.Gates)).Inc()
	respond(pod, h.Surges != nil && found != nil && h.Surges(pod.Namespace, found))
	return warnings
}

func unchanged(why string) admission.Response {
	response := admission.Allowed("")
	response.Warnings = bounded([]string{"the pod is left as it is: " + why})
	return response
}

// SPDX-License-Identifier: Apache-2.0

// Package webhook is the admission webhook that fills new pods in: the
// scheduler, and what their ResourceLimit says. It denies nothing: the
// scheduler enforces, with the webhook and without.
package webhook

import (
	"context"
	"fmt"
	"runtime/debug"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	"berth.dev/berth/internal/limits"
)

// Path is where the webhook is served.
const Path = "/mutate-pods"

// Resolver finds a pod's limit.
type Resolver interface {
	For(pod *corev1.Pod) limits.Resolution
}

// Handler answers admission reviews.
type Handler struct {
	// Limits are asked for each pod, once Synced says that all are known.
	Limits Resolver
	Synced func() bool
	// SchedulerName is what pods get that name no scheduler; empty for none.
	SchedulerName string
}

var _ admission.Handler = &Handler{}

// Handle implements admission.Handler. Whatever happens, the pod is allowed: an
// answer that says no would count, unlike no answer, whatever the failurePolicy.
func (h *Handler) Handle(ctx context.Context, req admission.Request) (response admission.Response) {
	outcome := outcomeError
	defer func() {
		if r := recover(); r != nil {
			log.FromContext(ctx).Error(fmt.Errorf("panic: %v", r), "The pod is left as it is", "stack", string(debug.Stack()))
			outcome, response = outcomeError, unchanged("it could not be looked at")
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
	outcome, warnings := mutate(pod, h.SchedulerName, h.Limits.For(pod))
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

func unchanged(why string) admission.Response {
	response := admission.Allowed("")
	response.Warnings = bounded([]string{"the pod is left as it is: " + why})
	return response
}

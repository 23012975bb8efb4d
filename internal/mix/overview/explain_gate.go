// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/fallback"
	"berth.dev/berth/internal/mix/gate"
)

// GateFacts are what became of a pod's scheduling gate.
type GateFacts struct {
	State gateState `json:"state"`
	// LimitedTo is the type that the pod was limited to, for Ungated and FellBack.
	LimitedTo string `json:"limitedTo,omitempty"`
	// Reason is why the gate was removed without a slot, for UngatedWithoutSlot.
	Reason string `json:"reason,omitempty"`
	// Failures is how many attempts on spot had failed, RetryTime when spot is tried again, for FellBack.
	Failures  int          `json:"failures,omitempty"`
	RetryTime *metav1.Time `json:"retryTime,omitempty"`
}

// gateState is one word for it.
type gateState string

const (
	gateWaiting  gateState = "Waiting"
	gateRemoved  gateState = "Ungated"
	gateFellBack gateState = "FellBack"
	gateNoSlot   gateState = "UngatedWithoutSlot"
)

// gateFacts reads them from a pod, nil if it never had the gate.
func gateFacts(pod *corev1.Pod) *GateFacts {
	if gate.Has(pod) {
		return &GateFacts{State: gateWaiting}
	}
	if limited, ok := gate.LimitedTo(pod); ok {
		f := &GateFacts{State: gateRemoved, LimitedTo: limited.String()}
		if m, fell := fallback.MarkOf(pod.Annotations, string(pod.UID)); fell {
			f.State, f.Failures, f.RetryTime = gateFellBack, m.Failures, new(metav1.NewTime(m.RetryAt))
		}
		return f
	}
	if reason := pod.Annotations[v1alpha1.UngateReasonAnnotation]; reason != "" {
		return &GateFacts{State: gateNoSlot, Reason: reason}
	}
	return nil
}

// fellBack reports whether the pod was limited to on-demand because of missing spot.
func (e *explainer) fellBack() bool {
	f := gateFacts(e.Pod)
	return f != nil && f.State == gateFellBack
}

// released are the reasons for which a gate is released without a slot, in words.
var released = map[string]string{
	v1alpha1.UngateReasonNoLeader: "no scheduler was leading, so the controller released it",
	v1alpha1.UngateReasonNoMix:    "no mix governed the pod",
	v1alpha1.UngateReasonNoLabel:  "no node label is known that would limit the pod to a type",
	v1alpha1.UngateReasonPinned:   "the pod names a capacity type itself",
}

// text is one line about the gate, "" for a pod that never had it.
func (f *GateFacts) text() string {
	switch {
	case f == nil:
		return ""
	case f.State == gateWaiting:
		return v1alpha1.CapacityMixGate + " is set: the pod waits for its slot"
	case f.State == gateFellBack:
		return fmt.Sprintf("released; spot nodes did not become available (%s in a row), so the pod is limited to %s; spot is tried again at %s",
			display.Count(f.Failures, "failure"), f.LimitedTo, f.RetryTime.UTC().Format(time.RFC3339))
	case f.State == gateRemoved:
		return "released; the pod is limited to " + f.LimitedTo
	}
	why := f.Reason
	if known := released[f.Reason]; known != "" {
		why = known
	}
	return fmt.Sprintf("released without a slot: %s (%s: %s)", why, v1alpha1.UngateReasonAnnotation, f.Reason)
}

// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/mix/fallback"
	"berth.dev/berth/internal/mix/gate"
)

// GateFacts are what became of a pod's scheduling gate.
type GateFacts struct {
	State gateState `json:"state"`
	// LimitedTo is the type that the pod was limited to, for Opened and FellBack.
	LimitedTo string `json:"limitedTo,omitempty"`
	// Reason is why it was opened without a slot, for LetGo.
	Reason string `json:"reason,omitempty"`
	// Failures is how many attempts on spot had failed, RetryTime when spot is tried again, for FellBack.
	Failures  int          `json:"failures,omitempty"`
	RetryTime *metav1.Time `json:"retryTime,omitempty"`
}

// gateState is one word for it.
type gateState string

const (
	gateWaiting  gateState = "Waiting"
	gateOpened   gateState = "Opened"
	gateFellBack gateState = "FellBack"
	gateLetGo    gateState = "LetGo"
)

// gateFacts reads them from a pod, nil if it never had the gate.
func gateFacts(pod *corev1.Pod) *GateFacts {
	if gate.Has(pod) {
		return &GateFacts{State: gateWaiting}
	}
	if limited, ok := gate.Opened(pod); ok {
		f := &GateFacts{State: gateOpened, LimitedTo: limited.String()}
		if m, fell := fallback.MarkOf(pod.Annotations, string(pod.UID)); fell {
			f.State, f.Failures, f.RetryTime = gateFellBack, m.Failures, new(metav1.NewTime(m.RetryAt))
		}
		return f
	}
	if reason := pod.Annotations[v1alpha1.GateOpenedAnnotation]; reason != "" {
		return &GateFacts{State: gateLetGo, Reason: reason}
	}
	return nil
}

// fellBack reports whether the pod was limited to on-demand because of missing spot.
func (e *explainer) fellBack() bool {
	f := gateFacts(e.pod)
	return f != nil && f.State == gateFellBack
}

// letGo are the reasons for which a gate is opened without a slot, in words.
var letGo = map[string]string{
	v1alpha1.GateOpenedNoLeader: "no scheduler led for a while, so the controller opened its scheduling gate without a slot",
	v1alpha1.GateOpenedNoMix:    "its scheduling gate was opened without a slot: no mix governed it",
	v1alpha1.GateOpenedNoLabel:  "its scheduling gate was opened without a slot: no node label is known by which to limit it to a type",
	v1alpha1.GateOpenedPinned:   "its scheduling gate was opened without a slot: it names a capacity type itself",
}

func (f *GateFacts) sentences() []string {
	if f == nil {
		return nil
	}
	switch f.State {
	case gateWaiting:
		return []string{"It has the scheduling gate " + v1alpha1.CapacityMixGate + ", and waits for the leading berth-scheduler to give it its slot."}
	case gateFellBack:
		return []string{fmt.Sprintf("It fell back: spot nodes did not come (%s in a row), so it was limited to %s before it was scheduled; spot is tried again at %s.",
			printers.Count(f.Failures, "failure"), f.LimitedTo, f.RetryTime.UTC().Format(time.RFC3339))}
	case gateOpened:
		return []string{fmt.Sprintf("It was limited to %s before it was scheduled, when its scheduling gate was opened.", f.LimitedTo)}
	}
	why, known := letGo[f.Reason]
	if !known {
		why = "its scheduling gate was opened without a slot"
	}
	return []string{fmt.Sprintf("Once made, it waited for its slot; then %s (%s: %s).", why, v1alpha1.GateOpenedAnnotation, f.Reason)}
}

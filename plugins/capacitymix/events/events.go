// SPDX-License-Identifier: Apache-2.0

// Package events emits the events of plugin CapacityMix, each once.
package events

import (
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/plugins/internal/metrics"
)

// Recorder emits events. It is safe for concurrent use.
type Recorder struct {
	recorder func() events.EventRecorder
	emitted  *lru.Cache // by the hash of a problem
	seed     maphash.Seed
}

// problem identifies an event about something that stays wrong: it is emitted
// once per object and value, not once per scheduling attempt. Only its hash is
// kept, since a value may be as large as an annotation.
type problem struct {
	object     types.UID
	key, value string
}

const (
	// maxProblems bounds how many problems are remembered; past it an event may be repeated.
	maxProblems = 4096
	// maxNote is the length that events.k8s.io allows for the note of an event.
	maxNote = 1024
	// maxValue is how much of a value that a tenant wrote is shown.
	maxValue = 64
)

// NewRecorder returns a Recorder. The event recorder of a scheduler exists only after its plugins.
func NewRecorder(recorder func() events.EventRecorder) *Recorder {
	return &Recorder{recorder: recorder, emitted: lru.New(maxProblems), seed: maphash.MakeSeed()}
}

// emit sends an event. The API server refuses one with a note that is too long.
func (r *Recorder) emit(on runtime.Object, eventType, reason, action, format string, args ...any) {
	r.recorder().Eventf(on, nil, eventType, reason, action, "%s", truncate(fmt.Sprintf(format, args...), maxNote))
}

// Truncate cuts a text that a tenant may have written to the length of an event's note.
func Truncate(text string) string { return truncate(text, maxNote) }

// truncate returns a text that does not keep the whole one in memory.
func truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}

// InvalidAnnotations warns on the object that carries an invalid mix annotation.
func (r *Recorder) InvalidAnnotations(pod *corev1.Pod, invalid []governing.InvalidAnnotation) {
	for _, i := range invalid {
		if !r.first(problem{i.Object.GetUID(), i.Key, i.Value}) {
			continue
		}
		metrics.InvalidMixes.WithLabelValues("annotation").Inc()
		object, ok := i.Object.(runtime.Object)
		if !ok {
			object = pod
		}
		r.emit(object, corev1.EventTypeWarning, v1alpha1.EventReasonInvalidMixAnnotation, "Scheduling",
			"Ignoring annotation %s: %q is invalid: %s", i.Key, truncate(i.Value, maxValue), i.Problem)
	}
}

// TolerationsIgnored warns on a CapacityMix some of whose tolerations are not added to pods.
func (r *Recorder) TolerationsIgnored(cm *v1alpha1.CapacityMix, taints []string) {
	if r.first(problem{cm.UID, fmt.Sprint(cm.Generation), v1alpha1.EventReasonTolerationsIgnored}) {
		r.emitOnMix(cm, v1alpha1.EventReasonTolerationsIgnored,
			"Ignoring tolerations %q: Gt and Lt require the feature gate TaintTolerationComparisonOperators", taints)
	}
}

// InvalidCapacityMix warns on a CapacityMix that governs nothing because it is
// invalid. Only an object that was stored before its validation rule existed is.
func (r *Recorder) InvalidCapacityMix(cm *v1alpha1.CapacityMix, err error) {
	if !r.first(problem{cm.UID, fmt.Sprint(cm.Generation), err.Error()}) {
		return
	}
	metrics.InvalidMixes.WithLabelValues("capacitymix").Inc()
	r.emitOnMix(cm, v1alpha1.EventReasonInvalidCapacityMix, "Ignoring this CapacityMix: %v", err)
}

func (r *Recorder) emitOnMix(cm *v1alpha1.CapacityMix, reason, format string, args ...any) {
	cm = cm.DeepCopy() // the cache's copy has no kind, which the event needs
	cm.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("CapacityMix"))
	r.emit(cm, corev1.EventTypeWarning, reason, "Scheduling", format, args...)
}

// UngateFailed warns on a pod whose scheduling gate cannot be removed.
func (r *Recorder) UngateFailed(pod *corev1.Pod, reason string) {
	if r.first(problem{pod.UID, v1alpha1.EventReasonUngateFailed, reason}) {
		r.emit(pod, corev1.EventTypeWarning, v1alpha1.EventReasonUngateFailed, "Scheduling", "Cannot remove the scheduling gate: %s",
			reason)
	}
}

// SpotUnavailable warns on the controller of a pod that was deleted because it found no spot node: within its wait, or because an
// autoscaler reported that it launches none.
func (r *Recorder) SpotUnavailable(pod *corev1.Pod, after time.Duration, autoscaler string) {
	ref := metav1.GetControllerOfNoCopy(pod)
	owner := &corev1.ObjectReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: pod.Namespace, Name: ref.Name, UID: ref.UID}
	r.emit(owner, corev1.EventTypeWarning, v1alpha1.EventReasonSpotUnavailable, "Scheduling",
		"Pod %s found no spot node %s and was deleted: its successor is limited to on-demand", pod.Name, why(after, autoscaler))
}

// SpotUnavailableNotDeleted warns on a pod that finds no spot node and has no successor that could use on-demand.
func (r *Recorder) SpotUnavailableNotDeleted(pod *corev1.Pod, after time.Duration, autoscaler, reason string) {
	r.emit(pod, corev1.EventTypeWarning, v1alpha1.EventReasonSpotUnavailable, "Scheduling",
		"No spot node %s. The pod keeps waiting and is not replaced by one on on-demand because %s", why(after, autoscaler), reason)
}

func why(after time.Duration, autoscaler string) string {
	if autoscaler != "" {
		return "(" + autoscaler + " reported that it launches none)"
	}
	return fmt.Sprint("within ", after)
}

// Borrowed reports that a pod runs on the other capacity type than its slot's.
// It is the only event on a successful placement, and rare.
func (r *Recorder) Borrowed(pod *corev1.Pod, slot int, slotType, nodeType capacity.Type, node string) {
	r.emit(pod, corev1.EventTypeNormal, v1alpha1.EventReasonBorrowed, "Binding",
		"Scheduled on %s node %s: no %s capacity for slot %d", nodeType, node, slotType, slot)
}

// first keeps a problem. It returns false if the problem was kept before.
func (r *Recorder) first(p problem) bool {
	hash := maphash.Comparable(r.seed, p)
	if _, known := r.emitted.Get(hash); known {
		return false
	}
	r.emitted.Add(hash, nil)
	return true
}

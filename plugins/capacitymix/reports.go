// SPDX-License-Identifier: Apache-2.0

package capacitymix

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
	"berth.dev/berth/internal/mix/policy"
)

// reports emits the plugin's events, each once.
type reports struct {
	recorder func() events.EventRecorder
	seen     *lru.Cache // hash of a complaint -> nothing
	seed     maphash.Seed
}

// complaint identifies an event about something that stays wrong: it is emitted
// once per object and value, not once per scheduling attempt. Only its hash is
// kept, since a value may be as large as an annotation.
type complaint struct {
	object     types.UID
	key, value string
}

const (
	// complaintsRemembered bounds the memory for them; past it one may be repeated.
	complaintsRemembered = 4096
	// maxNote is the length that events.k8s.io allows for the note of an event.
	maxNote = 1024
	// maxValue is how much of a value that a tenant wrote is shown.
	maxValue = 64
)

func newReports(recorder func() events.EventRecorder) *reports {
	return &reports{recorder: recorder, seen: lru.New(complaintsRemembered), seed: maphash.MakeSeed()}
}

// emit sends an event. The API server refuses one with a note that is too long.
func (r *reports) emit(on runtime.Object, eventType, reason, action, format string, args ...any) {
	r.recorder().Eventf(on, nil, eventType, reason, action, "%s", shortened(fmt.Sprintf(format, args...), maxNote))
}

// shortened cuts a text that a tenant may have written. The result does not keep the whole text in memory.
func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}

// invalidAnnotations warns on the object that carries a mix annotation which
// could not be read.
func (r *reports) invalidAnnotations(pod *corev1.Pod, invalid []policy.InvalidAnnotation) {
	for _, i := range invalid {
		if !r.first(complaint{i.Object.GetUID(), i.Key, i.Value}) {
			continue
		}
		invalidPolicies.WithLabelValues("annotation").Inc()
		object, ok := i.Object.(runtime.Object)
		if !ok {
			object = pod
		}
		r.emit(object, corev1.EventTypeWarning, v1alpha1.EventReasonInvalidMixAnnotation, "Scheduling",
			"Ignoring annotation %s: %q is invalid: %s", i.Key, shortened(i.Value, maxValue), i.Problem)
	}
}

// invalidCapacityMix warns on a CapacityMix that governs nothing because it
// cannot be read; only objects stored before the rule existed get here.
func (r *reports) invalidCapacityMix(cm *v1alpha1.CapacityMix, err error) {
	if !r.first(complaint{cm.UID, fmt.Sprint(cm.Generation), err.Error()}) {
		return
	}
	invalidPolicies.WithLabelValues("capacitymix").Inc()
	cm = cm.DeepCopy() // the cache's copy has no kind, which the event needs
	cm.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("CapacityMix"))
	r.emit(cm, corev1.EventTypeWarning, v1alpha1.EventReasonInvalidCapacityMix, "Scheduling",
		"Ignoring this CapacityMix: %v", err)
}

// closedGate warns on a pod whose gate cannot be opened.
func (r *reports) closedGate(pod *corev1.Pod, why string) {
	if r.first(complaint{pod.UID, v1alpha1.EventReasonUngateFailed, why}) {
		r.emit(pod, corev1.EventTypeWarning, v1alpha1.EventReasonUngateFailed, "Scheduling", "Cannot open the scheduling gate: %s", why)
	}
}

// spotUnavailable warns on a pod's controller that the pod was deleted, since it found no spot node.
func (r *reports) spotUnavailable(pod *corev1.Pod, after time.Duration) {
	ref := metav1.GetControllerOfNoCopy(pod)
	owner := &corev1.ObjectReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: pod.Namespace, Name: ref.Name, UID: ref.UID}
	r.emit(owner, corev1.EventTypeWarning, v1alpha1.EventReasonSpotUnavailable, "Scheduling",
		"Pod %s found no spot node within %s and was deleted: its successor is limited to on-demand", pod.Name, after)
}

// waitsOn warns on a pod that finds no spot node, and cannot be replaced by one on on-demand.
func (r *reports) waitsOn(pod *corev1.Pod, after time.Duration, why string) {
	r.emit(pod, corev1.EventTypeWarning, v1alpha1.EventReasonSpotUnavailable, "Scheduling",
		"No spot node within %s. The pod is not deleted for one on on-demand, since %s: it waits on", after, why)
}

// borrowed tells that a pod runs on the other type than its slot's. It is the
// only event on a successful placement, and rare.
func (r *reports) borrowed(pod *corev1.Pod, c *cycle, on capacity.Type, node string) {
	r.emit(pod, corev1.EventTypeNormal, v1alpha1.EventReasonBorrowed, "Binding",
		"Scheduled on %s node %s: no %s capacity for slot %d", on, node, c.wants, c.slot)
}

func (r *reports) first(c complaint) bool {
	hash := maphash.Comparable(r.seed, c)
	if _, known := r.seen.Get(hash); known {
		return false
	}
	r.seen.Add(hash, nil)
	return true
}

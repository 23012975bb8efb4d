// SPDX-License-Identifier: Apache-2.0

// Package evictions decides what Berth answers to an Eviction of lifecycle.k8s.io for which it is the active responder.
package evictions

import (
	"slices"
	"time"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
)

// Request is an Eviction that waits for Berth.
type Request struct {
	Namespace, Name string
	// UID is that of the Eviction, Pod the name of the pod that is to be evicted, and PodUID its UID.
	UID    types.UID
	Pod    string
	PodUID types.UID
	// Started is when Berth became the active responder, Heartbeat when it answered last, zero for never, and Message what it answered.
	Started, Heartbeat time.Time
	Message            string
}

// Of returns the request that an Eviction is for Berth, and whether it is one: Berth is its active responder, and has not completed its
// part. One that was withdrawn, passed over to another responder, or is over, is none.
func Of(e *lifecyclev1alpha1.Eviction) (r Request, is bool) {
	target, status := e.Spec.Target.Pod, &e.Status
	if target == nil || target.Name == "" || target.UID == "" || over(e) {
		return r, false
	}
	active := slices.ContainsFunc(status.TargetResponders, func(t lifecyclev1alpha1.TargetResponder) bool {
		return t.Name == v1alpha1.EvictionResponder && t.State == lifecyclev1alpha1.ResponderStateActive
	})
	own := slices.IndexFunc(status.Responders, func(s lifecyclev1alpha1.ResponderStatus) bool {
		return s.Name == v1alpha1.EvictionResponder
	})
	if !active || own < 0 {
		return r, false
	}
	s := &status.Responders[own]
	if s.StartTime == nil || s.CompletionTime != nil {
		return r, false
	}
	r = Request{Namespace: e.Namespace, Name: e.Name, UID: e.UID, Pod: target.Name, PodUID: target.UID, Started: s.StartTime.Time}
	if s.HeartbeatTime != nil {
		r.Heartbeat = s.HeartbeatTime.Time
	}
	if s.Message != nil {
		r.Message = *s.Message
	}
	return r, true
}

// over reports whether an Eviction is of no concern: none has begun, or it has ended.
func over(e *lifecyclev1alpha1.Eviction) bool {
	return e.DeletionTimestamp != nil || e.Status.ObservedGeneration == nil ||
		meta.IsStatusConditionTrue(e.Status.Conditions, string(lifecyclev1alpha1.EvictionConditionTargetEvicted)) ||
		meta.IsStatusConditionTrue(e.Status.Conditions, string(lifecyclev1alpha1.EvictionConditionFailed))
}

// Trimmed is an Eviction with what Of reads, if it is a request for Berth, and with its identity alone otherwise.
func Trimmed(e *lifecyclev1alpha1.Eviction) *lifecyclev1alpha1.Eviction {
	t := &lifecyclev1alpha1.Eviction{}
	t.Namespace, t.Name, t.UID, t.ResourceVersion = e.Namespace, e.Name, e.UID, e.ResourceVersion
	r, is := Of(e)
	if !is {
		return t
	}
	t.Spec.Target.Pod = &lifecyclev1alpha1.EvictionPodReference{Name: r.Pod, UID: r.PodUID}
	t.Status.ObservedGeneration = e.Status.ObservedGeneration
	t.Status.TargetResponders = []lifecyclev1alpha1.TargetResponder{
		{Name: v1alpha1.EvictionResponder, State: lifecyclev1alpha1.ResponderStateActive},
	}
	for i := range e.Status.Responders {
		if s := &e.Status.Responders[i]; s.Name == v1alpha1.EvictionResponder {
			kept := lifecyclev1alpha1.ResponderStatus{Name: s.Name, StartTime: s.StartTime, HeartbeatTime: s.HeartbeatTime}
			if s.Message != nil {
				kept.Message = new(cut(*s.Message))
			}
			t.Status.Responders = []lifecyclev1alpha1.ResponderStatus{kept}
		}
	}
	return t
}

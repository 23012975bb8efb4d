// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/status"
	"berth.dev/berth/internal/kube/applyset"
)

const (
	// maxEvent is the length that events.k8s.io allows a message. Messages hold names and values that tenants write.
	maxEvent = 1024
	// maxName is the length of the longest name of an object.
	maxName = 253
	// movesAtOnce and movesPerSecond are above the pace at which the rebalancer evicts pods of one workload.
	movesAtOnce, movesPerSecond = 1000, 10
	// movesApart bounds how many events about moves of one workload in ten minutes are single events: the console shows each of them.
	movesApart = 100
	// rememberedEvents is how many workloads the correlation of events about moves remembers.
	rememberedEvents = 1024
)

// moveCorrelation is how events about moves are combined.
var moveCorrelation = record.CorrelatorOptions{
	LRUCacheSize: rememberedEvents, BurstSize: movesAtOnce, QPS: movesPerSecond, MaxEvents: movesApart,
}

// old returns a recorder of the old API of events, whose correlator bounds how many there are. That of the new API has another
// one, and its events have other fields.
func (p *parts) old(name string) record.EventRecorder {
	return p.mgr.GetEventRecorderFor(name) //nolint:staticcheck // see above
}

// recorder returns a recorder that bounds the length of what it records.
func (p *parts) recorder(name string) record.EventRecorder {
	all := p.old(name)
	return recorder{moves: all, rest: all}
}

// moveRecorder returns the recorder of the rebalancer. By default client-go
// drops the events about an object after 25 of them, and a workload that is
// governed by annotations has no other record of its moves. So the events about
// moves, whose pace the rebalancer bounds, have a correlator of their own: the
// first 99 of ten minutes are single events, the others become one, with a
// count and the last message.
func (p *parts) moveRecorder() (record.EventRecorder, error) {
	caster := record.NewBroadcaster(record.WithCorrelatorOptions(moveCorrelation))
	moves := caster.NewRecorder(p.mgr.GetScheme(), corev1.EventSource{Component: status.FieldOwner})
	err := p.mgr.Add(everywhere(func(ctx context.Context) error {
		caster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: p.kube.CoreV1().Events("")})
		context.AfterFunc(ctx, caster.Shutdown)
		return nil
	}))
	return recorder{moves: moves, rest: p.old(status.FieldOwner)}, err
}

// recorder has the events about moves recorded apart from the others. It shortens
// messages, and records nothing about objects that cannot exist: the owner
// references of pods hold names of any length.
type recorder struct{ moves, rest record.EventRecorder }

var _ record.EventRecorder = recorder{}

func (r recorder) of(reason string) record.EventRecorder {
	switch reason {
	case v1alpha1.EventReasonMoved, v1alpha1.EventReasonReleased, v1alpha1.EventReasonProvisioning, v1alpha1.EventReasonMoveFailed:
		return r.moves
	}
	return r.rest
}

func exists(object runtime.Object) bool {
	ref, is := object.(*corev1.ObjectReference)
	return !is || len(ref.Name) <= maxName && len(ref.Kind) <= maxName && len(ref.APIVersion) <= maxName
}

// Event implements record.EventRecorder.
func (r recorder) Event(object runtime.Object, kind, reason, message string) {
	if exists(object) {
		r.of(reason).Event(object, kind, reason, applyset.Shorten(message, maxEvent))
	}
}

// Eventf implements record.EventRecorder.
func (r recorder) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	r.Event(object, kind, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf implements record.EventRecorder.
func (r recorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	if exists(object) {
		message := applyset.Shorten(fmt.Sprintf(format, args...), maxEvent)
		r.of(reason).AnnotatedEventf(object, annotations, kind, reason, "%s", message)
	}
}

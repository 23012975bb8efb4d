// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Report is what an autoscaler reports about a pod that is unschedulable, by an event on the pod. The source and the reason of an event
// are its interface; its message is for people.
type Report int

const (
	// NoReport is that of an event about something else.
	NoReport Report = iota
	// Launches means that it launches a node for the pod, or expects the pod on one that is there.
	Launches
	// LaunchFailed means that the launch of a node for the pod failed. It may try others.
	LaunchFailed
	// NoNode means that it has no node to launch that the pod fits.
	NoNode
)

// The names of autoscalers in the metrics and events of Berth.
const (
	Karpenter         = "Karpenter"
	ClusterAutoscaler = "cluster-autoscaler"
)

// source is a component that records events on pods.
type source struct {
	autoscaler string
	reports    map[string]Report
}

// ofKarpenter: sigs.k8s.io/karpenter v1.15.0, pkg/events/reason.go. InsufficientCapacityError is on pods from 1.15 on.
var ofKarpenter = source{Karpenter, map[string]Report{
	"Nominated": Launches, "InsufficientCapacityError": LaunchFailed, "FailedScheduling": NoNode,
}}

// sources are the components by the source of their events (docs/autoscalers.md). As of 2026-11: cluster-autoscaler 1.37, also as GKE runs
// it, which records FailedScaleUp; Karpenter 1.15 and AKS node auto-provisioning, which is Karpenter; EKS Auto Mode, which runs Karpenter
// outside of the cluster.
var sources = map[string]source{
	"cluster-autoscaler": {ClusterAutoscaler, map[string]Report{
		"TriggeredScaleUp": Launches, "FailedScaleUp": LaunchFailed, "NotTriggerScaleUp": NoNode,
	}},
	"karpenter":             ofKarpenter,
	"eks-auto-mode/compute": ofKarpenter,
}

// Sources returns the sources of the events that Observe reads, sorted.
func Sources() []string { return slices.Sorted(maps.Keys(sources)) }

// Observation is a report about one pod.
type Observation struct {
	Report
	// Autoscaler is Karpenter or ClusterAutoscaler.
	Autoscaler string
	// At is when the event was recorded last, by the clock of its component.
	At time.Time
}

// Observe returns what an event on a pod reports. ok is false for events of other components and on other objects.
func Observe(e *corev1.Event) (o Observation, ok bool) {
	s := sources[cmp.Or(e.Source.Component, e.ReportingController)]
	o = Observation{Report: s.reports[e.Reason], Autoscaler: s.autoscaler, At: lastRecorded(e)}
	return o, o.Report != NoReport && e.InvolvedObject.Kind == "Pod" && e.InvolvedObject.UID != "" &&
		e.InvolvedObject.Namespace == e.Namespace // a namespace reports nothing about another one
}

// lastRecorded is by the clock of the component. That of the API server is another one.
func lastRecorded(e *corev1.Event) time.Time {
	at := e.EventTime.Time
	if last := e.LastTimestamp.Time; last.After(at) {
		at = last
	}
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	if at.IsZero() {
		return e.CreationTimestamp.Time
	}
	return at
}

const (
	// settles is how long after a report that no node comes a pod may still get one: a node that became free meanwhile.
	settles = 2 * time.Second
	// repeated is how many launches for a pod have failed when no other is waited for. The first one may be of some instance types or
	// zones, and autoscalers try others. If there are none, they report NoNode.
	repeated = 2
)

// EndsAfter returns how long after a report no node is expected for the pod any more. failed is how many launches for it have failed. ok is
// false if one is expected.
func (r Report) EndsAfter(failed int) (after time.Duration, ok bool) {
	switch r {
	case NoNode:
		return settles, true
	case LaunchFailed:
		return settles, failed >= repeated
	case NoReport, Launches:
	}
	return 0, false
}

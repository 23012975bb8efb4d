// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/decision"
	"berth.dev/berth/internal/policies/rules"
	"berth.dev/berth/plugins/capacitymix/events"
	"berth.dev/berth/plugins/internal/metrics"
	"berth.dev/berth/plugins/schedulingpolicy/decisionobjects"
)

// Recorder records the attempts of a scheduler. The framework calls no plugin when an attempt fails, and none with the status of a
// rejected node, so the scheduler has to call Failed and Rejected (docs/extension-points.md).
type Recorder struct {
	store *decision.Store
	// objects is nil where there is no API server, in unit tests.
	objects *decisionobjects.Objects

	mu sync.Mutex
	// profiles are the plugins by the name of their profile.
	profiles map[string]*SchedulingPolicy
	// failing are the attempts whose node was taken back, by pod, until Failed is called. order has their pods, oldest first.
	failing map[types.UID]*unbound
	order   []*unbound
}

// unbound is an attempt whose node was taken back, and the rules by which it was made.
type unbound struct {
	pod      types.UID
	governor *governor
	// record is nil if the rules request neither records nor events.
	record *decision.Record
}

// NewRecorder returns a Recorder that puts its records into a store.
func NewRecorder(store *decision.Store) *Recorder {
	return &Recorder{store: store, profiles: map[string]*SchedulingPolicy{}, failing: map[types.UID]*unbound{}}
}

// Run writes records as objects, for policies that request it, until the context ends. It is called in the process that leads,
// after the plugins are created.
func (r *Recorder) Run(ctx context.Context) {
	if r.objects != nil {
		r.objects.Run(ctx)
	}
}

// writeObjects has records written to an API server.
func (r *Recorder) writeObjects(config *rest.Config, clock clock.PassiveClock) error {
	if config == nil {
		return nil
	}
	c, err := decisionobjects.NewClient(config)
	if err != nil {
		return err
	}
	r.objects = decisionobjects.New(c, clock)
	return nil
}

// keep keeps a record. An attempt that has not ended is no object.
func (r *Recorder) keep(rules *rules.Rules, record *decision.Record) {
	r.store.Put(record, rules.TTL)
	if rules.Objects && r.objects != nil && record.Outcome != decision.Reserved {
		r.objects.Put(record, rules.TTL)
	}
}

func (r *Recorder) add(profile string, pl *SchedulingPolicy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.profiles[profile] = pl
}

// maxFailing bounds the records that wait for Failed, which is not called for attempts that pod groups try and take back.
const maxFailing = 1024

func (r *Recorder) unreserved(u *unbound) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failing[u.pod] = u
	r.order = append(r.order, u)
	if len(r.order) <= maxFailing {
		return
	}
	oldest := r.order[0]
	r.order[0], r.order = nil, r.order[1:]
	if r.failing[oldest.pod] == oldest {
		delete(r.failing, oldest.pod)
	}
}

// forget drops the record of an attempt of a pod that was bound in a later one.
func (r *Recorder) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failing, uid)
}

// take returns the plugin of a profile, and the attempt of a pod whose node was taken back, each nil if there is none.
func (r *Recorder) take(profile string, uid types.UID) (*SchedulingPolicy, *unbound) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.failing[uid]
	delete(r.failing, uid)
	return r.profiles[profile], u
}

// Failed records an attempt that failed. From the moment in which a node is selected, the scheduler passes the assumed pod, which
// has a node name, as has a pod that runs and is tried again because it is to be resized. That is no attempt. nodes are the
// statuses of the nodes that rejected the pod, nil if none did.
func (r *Recorder) Failed(profile string, pod *corev1.Pod, status *fwk.Status, nodes fwk.NodeToStatusReader, start time.Time) {
	pl, u := r.take(profile, pod.UID)
	switch {
	case pl == nil:
	case u != nil:
		pl.notBound(u, pod, status)
	case !resourcehelper.IsPodResizeDeferred(pod):
		pl.notPlaced(pod, status, nodes, start)
	}
}

// Rejected keeps why a node is rejected, in the cycles of pods whose rules request it.
func (r *Recorder) Rejected(state fwk.CycleState, node fwk.NodeInfo, status *fwk.Status) {
	if c := read(state); c != nil {
		c.rejected.add(node, status)
	}
}

// notBound records an attempt that selected a node and did not bind the pod to it.
func (pl *SchedulingPolicy) notBound(u *unbound, pod *corev1.Pod, status *fwk.Status) {
	metrics.PolicyAttempts.WithLabelValues(string(decision.BindFailed)).Inc()
	if u.record == nil {
		return
	}
	failure := *u.record
	failure.Outcome, failure.Message = decision.BindFailed, status.Message()
	pl.keep(u.governor, &failure)
	if u.governor.rules.Events {
		note := fmt.Sprintf("Decision %s: not bound to node %s%s: %s", failure.ID, failure.Node, withReservation(&failure), failure.Message)
		pl.handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeWarning, v1alpha1.EventReasonBindFailure, "Binding", "%s",
			events.Truncate(note))
	}
}

// withReservation is the part of an event that names the Reservation of an attempt, empty if it has none.
func withReservation(r *decision.Record) string {
	if r.Reservation == "" {
		return ""
	}
	return " with Reservation " + r.Reservation
}

// notPlaced records an attempt that reserved no node.
func (pl *SchedulingPolicy) notPlaced(pod *corev1.Pod, status *fwk.Status, nodes fwk.NodeToStatusReader, start time.Time) {
	g := pl.governorOf(pod)
	if g == nil {
		return
	}
	outcome := decision.Unschedulable
	if pod.Spec.NodeName != "" { // the scheduler selected a node that it could not assume
		outcome = decision.BindFailed
	}
	metrics.PolicyAttempts.WithLabelValues(string(outcome)).Inc()
	if !g.keeps(outcome) {
		return
	}
	record := pl.begin(g, pod, start)
	record.Outcome, record.Message, record.Node = outcome, status.Message(), pod.Spec.NodeName
	record.Rejections = pl.rejections(pod, nodes)
	pl.keep(g, record)
}

// rejections are the reasons for which nodes were rejected: by filters, or all that filters were not tried on by a PreFilter.
func (pl *SchedulingPolicy) rejections(pod *corev1.Pod, nodes fwk.NodeToStatusReader) []decision.Rejection {
	if nodes == nil {
		return nil
	}
	all, err := pl.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil
	}
	var list []decision.Rejected
	for _, node := range all {
		list = reasonsOf(list, node, nodes.Get(node.Node().Name))
	}
	return decision.Aggregate(pod, list)
}

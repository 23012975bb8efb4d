// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/decision"
	"berth.dev/berth/internal/policies/rules"
	"berth.dev/berth/plugins/capacitymix/events"
	"berth.dev/berth/plugins/schedulingpolicy/decisionobjects"
)

// Recorder records the attempts of a scheduler. A plugin does not learn why an attempt failed after it was called, so the
// scheduler's handler of failures, which does, has to be wrapped by Handler.
type Recorder struct {
	store *decision.Store
	// objects is nil where there is no API server, in unit tests.
	objects *decisionobjects.Objects

	mu sync.Mutex
	// profiles are the plugins by the name of their profile.
	profiles map[string]*SchedulingPolicy
	// failing are the records of attempts whose node was taken back, until the handler is called, by pod.
	failing map[types.UID]*decision.Record
}

// NewRecorder returns a Recorder that puts its records into a store.
func NewRecorder(store *decision.Store) *Recorder {
	return &Recorder{store: store, profiles: map[string]*SchedulingPolicy{}, failing: map[types.UID]*decision.Record{}}
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

// maxFailing bounds the records that wait for the handler: attempts that pod groups try and take back never reach it.
const maxFailing = 1024

func (r *Recorder) unreserved(uid types.UID, record *decision.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.failing) >= maxFailing {
		clear(r.failing)
	}
	r.failing[uid] = record
}

// forget drops the record of an attempt of a pod that was bound in a later one.
func (r *Recorder) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failing, uid)
}

// take returns the plugin of a profile, and the record of an attempt whose node was taken back, each nil if there is none.
func (r *Recorder) take(profile string, uid types.UID) (*SchedulingPolicy, *decision.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	record := r.failing[uid]
	delete(r.failing, uid)
	return r.profiles[profile], record
}

// Handler returns the scheduler's handler of failures, with a record of each.
func (r *Recorder) Handler(next scheduler.FailureHandlerFn) scheduler.FailureHandlerFn {
	return func(ctx context.Context, profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status,
		nominating *fwk.NominatingInfo, start time.Time,
	) {
		r.failed(profile.ProfileName(), pod.Pod, status)
		next(ctx, profile, pod, status, nominating, start)
	}
}

// failed records an attempt that failed. A pod that waits before it is tried, and one that runs and is resized, has none.
func (r *Recorder) failed(profile string, pod *corev1.Pod, status *fwk.Status) {
	pl, record := r.take(profile, pod.UID)
	if pl == nil || pod.Spec.NodeName != "" {
		return
	}
	g := pl.governorOf(pod)
	if g == nil {
		return
	}
	if record != nil {
		failure := *record
		failure.Outcome, failure.Message = decision.BindFailed, status.Message()
		pl.keep(g, &failure)
		if g.rules.Events {
			note := fmt.Sprintf("Decision %s: not bound to node %s: %s", failure.ID, failure.Node, failure.Message)
			pl.handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeWarning, v1alpha1.EventReasonBindFailure, "Binding", "%s",
				events.Truncate(note))
		}
		return
	}
	if !g.keeps(decision.Unschedulable) {
		return
	}
	record = pl.begin(g, pod)
	record.Outcome, record.Message = decision.Unschedulable, status.Message()
	if fit, ok := errors.AsType[*framework.FitError](status.AsError()); ok {
		record.Rejections = pl.rejections(pod, fit)
	}
	pl.keep(g, record)
}

// rejections are the reasons for which nodes were rejected.
func (pl *SchedulingPolicy) rejections(pod *corev1.Pod, fit *framework.FitError) []decision.Rejection {
	if fit.Diagnosis.NodeToStatus == nil {
		return nil
	}
	nodes := pl.handle.SnapshotSharedLister().NodeInfos()
	var rejected []decision.Rejected
	fit.Diagnosis.NodeToStatus.ForEachExplicitNode(func(name string, status *fwk.Status) {
		info, err := nodes.Get(name)
		if err != nil {
			return
		}
		for _, reason := range status.Reasons() {
			rejected = append(rejected, decision.Rejected{Node: info, Plugin: status.Plugin(), Message: reason})
		}
	})
	return decision.Aggregate(pod, rejected)
}

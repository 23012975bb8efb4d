// SPDX-License-Identifier: Apache-2.0

// Package upstream extends kube-scheduler where its framework has no extension point (docs/extension-points.md).
package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Placer selects nodes for pods that no API server has, between two scheduling cycles: so no pod takes the capacity of a node
// while it is considered. Create it before the plugins, and attach it before the scheduler runs.
type Placer struct {
	scheduler *scheduler.Scheduler

	// cycle is locked during a scheduling cycle. The goroutine of the cycles locks and unlocks it; inCycle is whether it has.
	cycle   sync.Mutex
	inCycle bool
}

// Attach has the Placer work while the scheduler waits for its next pod.
func (p *Placer) Attach(s *scheduler.Scheduler) {
	next := s.NextEntity
	p.scheduler = s
	s.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		if p.inCycle {
			p.cycle.Unlock()
		}
		entity, err := next(logger)
		p.cycle.Lock()
		p.inCycle = true
		return entity, err
	}
}

// Place returns the node that the profile of a pod selects for it. The pod is neither assumed nor bound. The status is
// Unschedulable if no node is feasible, UnschedulableAndUnresolvable if the scheduler has no such profile.
func (p *Placer) Place(ctx context.Context, pod *corev1.Pod) (node string, _ *fwk.Status) {
	profile := p.scheduler.Profiles[pod.Spec.SchedulerName]
	if profile == nil {
		return "", fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("spec.schedulerName: the scheduler has no such profile: %q", pod.Spec.SchedulerName))
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return "", fwk.AsStatus(err)
	}
	p.cycle.Lock()
	defer p.cycle.Unlock()
	if _, err := p.snapshot(ctx, profile); err != nil {
		return "", fwk.AsStatus(err)
	}
	result, err := p.scheduler.SchedulePod(ctx, profile, framework.NewCycleState(), &framework.QueuedPodInfo{PodInfo: info})
	if _, unfit := errors.AsType[*framework.FitError](err); unfit || errors.Is(err, scheduler.ErrNoNodesAvailable) {
		return "", fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	return result.SuggestedHost, fwk.AsStatus(err)
}

// Nodes calls a function with the nodes as they are now. No pod is scheduled meanwhile.
func (p *Placer) Nodes(ctx context.Context, use func(fwk.NodeInfoLister)) error {
	p.cycle.Lock()
	defer p.cycle.Unlock()
	for _, profile := range p.scheduler.Profiles { // they share the snapshot
		snapshot, err := p.snapshot(ctx, profile)
		if err != nil {
			return err
		}
		use(snapshot.NodeInfos())
		break
	}
	return nil
}

// snapshot returns the scheduler's snapshot, which it updates. The caller holds p.cycle.
func (p *Placer) snapshot(ctx context.Context, profile framework.Framework) (*schedcache.Snapshot, error) {
	snapshot, ok := profile.SnapshotSharedLister().(*schedcache.Snapshot)
	if !ok {
		return nil, fmt.Errorf("want the scheduler's snapshot, got %T", profile.SnapshotSharedLister())
	}
	return snapshot, p.scheduler.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot)
}

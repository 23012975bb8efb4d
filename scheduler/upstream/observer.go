// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Observer gets the outcomes that the framework passes to no plugin.
type Observer interface {
	// Failed is called when an attempt fails, before the scheduler puts the pod back into its queue. From the moment in which a node
	// is selected, the pod is the assumed one, which has a node name. nodes are the statuses of the nodes that rejected the pod, nil
	// if none did. start is when the attempt began.
	Failed(profile string, pod *corev1.Pod, status *fwk.Status, nodes fwk.NodeToStatusReader, start time.Time)
	// Rejected is called when a filter rejects a node, by several goroutines at a time. The framework returns these statuses for a
	// pod only if no node is feasible for it.
	Rejected(state fwk.CycleState, node fwk.NodeInfo, status *fwk.Status)
}

// Observe has a scheduler call an Observer. Call it before the scheduler runs.
func Observe(s *scheduler.Scheduler, o Observer) {
	next := s.FailureHandler
	s.FailureHandler = func(ctx context.Context, profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status,
		nominating *fwk.NominatingInfo, start time.Time,
	) {
		o.Failed(profile.ProfileName(), pod.Pod, status, nodesOf(status), start)
		next(ctx, profile, pod, status, nominating, start)
	}
	for name, profile := range s.Profiles {
		s.Profiles[name] = observed{profile, o}
	}
}

// nodesOf returns the statuses of the nodes that rejected a pod, nil if the attempt failed otherwise.
func nodesOf(status *fwk.Status) fwk.NodeToStatusReader {
	if fit, ok := errors.AsType[*framework.FitError](status.AsError()); ok && fit.Diagnosis.NodeToStatus != nil {
		return fit.Diagnosis.NodeToStatus
	}
	return nil
}

// observed is a profile whose filters have an Observer.
type observed struct {
	framework.Framework
	observer Observer
}

// RunFilterPluginsWithNominatedPods implements framework.Framework.
func (o observed) RunFilterPluginsWithNominatedPods(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo,
) *fwk.Status {
	status := o.Framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, info)
	if status.IsRejected() {
		o.observer.Rejected(state, info, status)
	}
	return status
}

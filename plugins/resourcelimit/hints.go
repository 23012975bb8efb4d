// SPDX-License-Identifier: Apache-2.0

package resourcelimit

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// EventsToRegister names the events after which a pod that this plugin rejected
// can have a place. Limits that change wake pods through waiting.
func (pl *ResourceLimit) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel},
			QueueingHintFn: pl.nodeChanged,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel | fwk.UpdatePodScaleDown},
			QueueingHintFn: pl.podChanged,
		},
	}, nil
}

// nodeChanged wakes a pod when a node came to match its size that did not. A pod
// that is refused whatever the node waits for other things.
func (pl *ResourceLimit) nodeChanged(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	node, ok := newObj.(*corev1.Node)
	if !ok {
		return fwk.Queue, fmt.Errorf("want a node, got %T", newObj)
	}
	limit := pl.limits.For(pod).Limit
	if limit == nil {
		logger.V(5).Info("The pod waits for its ResourceLimit, not for a node", "pod", klog.KObj(pod), "node", klog.KObj(node))
		return fwk.QueueSkip, nil
	}
	hint, why := fwk.QueueSkip, ""
	switch old, _ := oldObj.(*corev1.Node); {
	case !limit.Matches(node):
		why = "The node does not match the pod's ResourceLimit"
	case old != nil && limit.Matches(old):
		why = "The node matched the pod's ResourceLimit before"
	case len(limit.Exceeded(pod)) > 0:
		why = "The pod is above its ResourceLimit on any node"
	default:
		hint, why = fwk.Queue, "The node matches the pod's ResourceLimit now"
	}
	logger.V(5).Info(why, "pod", klog.KObj(pod), "node", klog.KObj(node), "resourceLimit", limit.Key)
	return hint, nil
}

// podChanged wakes a pod whose own labels changed or that requests less.
func (pl *ResourceLimit) podChanged(logger klog.Logger, pod *corev1.Pod, _, newObj any) (fwk.QueueingHint, error) {
	changed, ok := newObj.(*corev1.Pod)
	if !ok {
		return fwk.Queue, fmt.Errorf("want a pod, got %T", newObj)
	}
	if changed.UID != pod.UID {
		return fwk.QueueSkip, nil
	}
	logger.V(5).Info("The pod itself changed", "pod", klog.KObj(pod))
	return fwk.Queue, nil
}

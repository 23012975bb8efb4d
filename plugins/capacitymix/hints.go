// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/domains"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

// EventsToRegister names the events after which a pod that this plugin rejected
// can be scheduled. Where the scheduler has no event, the plugin activates the
// pods: a sibling that starts to terminate, a changed mix, a wait that is over.
func (pl *CapacityMix) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event: fwk.ClusterEvent{
				Resource: fwk.Node,
				ActionType: fwk.Add | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint | fwk.UpdateNodeAnnotation | fwk.UpdateNodeCondition |
					fwk.UpdateNodeAllocatable,
			},
			QueueingHintFn: pl.nodeChanged,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete},
			QueueingHintFn: pl.podDeleted,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel},
			QueueingHintFn: pl.podRelabelled,
		},
	}, nil
}

// nodeChanged queues a pod when a node can take it that could not before: its type
// is known, and it is not departing. Which of the two types helps is decided by the
// pod's slot in its next cycle; a pod that may borrow can use either. It also queues a pod that avoids
// domains in quarantine when a node changes outside of these, which may have been the last one that the pod could use.
func (pl *CapacityMix) nodeChanged(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	node, ok := newObj.(*corev1.Node)
	if !ok {
		return fwk.Queue, fmt.Errorf("want a node, got %T", newObj)
	}
	now := pl.Ledger.Describe(node)
	var before ledger.Node
	old, _ := oldObj.(*corev1.Node)
	if old != nil {
		before = pl.Ledger.Describe(old)
		if (before.OutsideQuarantine() || now.OutsideQuarantine()) && pl.changesSpared(pod, old, node) {
			logger.V(5).Info("The pod may have other nodes outside of quarantine now", "pod", klog.KObj(pod), "node", klog.KObj(node))
			return fwk.Queue, nil
		}
	}
	if now.Type == capacity.Unknown || now.Departing {
		logger.V(5).Info("The node can take no pod with a slot",
			"pod", klog.KObj(pod), "node", klog.KObj(node), "type", now.Type, "departing", now.Departing)
		return fwk.QueueSkip, nil
	}
	if old != nil && before.Type == now.Type && !before.Departing && !pl.changesDomain(pod, before, now) {
		logger.V(5).Info("The node's type did not change", "pod", klog.KObj(pod), "node", klog.KObj(node), "type", now.Type)
		return fwk.QueueSkip, nil
	}
	logger.V(5).Info("The node may take the pod now", "pod", klog.KObj(pod), "node", klog.KObj(node), "type", now.Type)
	return fwk.Queue, nil
}

// changesDomain reports whether the labels of a node changed that name a domain of which the mix of a pod limits the replicas. The
// scheduling queue calls it for each pod that waits, under its lock.
func (pl *CapacityMix) changesDomain(pod *corev1.Pod, before, now ledger.Node) bool {
	if !pl.Mixes.Limits() || maps.Equal(before.Labels(), now.Labels()) {
		return false
	}
	p, _ := pl.resolver.Resolve(pod)
	return p != nil && slices.ContainsFunc(p.MaxPerDomain, func(l domains.Limit) bool {
		return before.Labels()[l.Key] != now.Labels()[l.Key]
	})
}

// changesSpared reports whether a pod avoids domains in quarantine, and a node that is outside of these, or was, changed in what the pod
// may need of it. It is called as changesDomain is. For a node that is deleted, the ledger wakes the pods: the scheduling queue has that
// event before the snapshot has the deletion.
func (pl *CapacityMix) changesSpared(pod *corev1.Pod, before, now *corev1.Node) bool {
	if pl.Ledger.InQuarantine() == nil || !pl.Mixes.Avoids() {
		return false
	}
	if maps.Equal(before.Labels, now.Labels) && slices.EqualFunc(before.Spec.Taints, now.Spec.Taints, sameTaint) &&
		before.Spec.Unschedulable == now.Spec.Unschedulable &&
		maps.EqualFunc(before.Status.Allocatable, now.Status.Allocatable, resource.Quantity.Equal) {
		return false
	}
	p, _ := pl.resolver.Resolve(pod)
	return p != nil && p.AvoidInterrupted
}

func sameTaint(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value }

// podDeleted queues a pod when a sibling is deleted: its slot may be a lower one, and
// its capacity may be of the pod's own type.
func (pl *CapacityMix) podDeleted(logger klog.Logger, pod *corev1.Pod, oldObj, _ any) (fwk.QueueingHint, error) {
	gone, ok := oldObj.(*corev1.Pod)
	if !ok {
		return fwk.Queue, fmt.Errorf("want a pod, got %T", oldObj)
	}
	if siblings(pod, gone) || pod.Namespace == gone.Namespace && pl.Ledger.In(pl.groupOf(gone), pod.UID) {
		logger.V(5).Info("A sibling is gone", "pod", klog.KObj(pod), "sibling", klog.KObj(gone))
		return fwk.Queue, nil
	}
	logger.V(5).Info("The pod that is gone is no sibling", "pod", klog.KObj(pod), "gone", klog.KObj(gone))
	return fwk.QueueSkip, nil
}

// podRelabelled queues a pod whose own labels changed: another mix may select it.
func (pl *CapacityMix) podRelabelled(_ klog.Logger, pod *corev1.Pod, _, newObj any) (fwk.QueueingHint, error) {
	changed, ok := newObj.(*corev1.Pod)
	if !ok {
		return fwk.Queue, fmt.Errorf("want a pod, got %T", newObj)
	}
	if changed.UID == pod.UID {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// departed is the group of a pod that is gone.
type departed struct {
	pod     *corev1.Pod
	changes uint64
	group   governing.GroupKey
}

// groupOf returns the group of a pod that is gone. The scheduling queue calls the hint for each pod that waits, under its lock, so
// the last answer is kept.
func (pl *CapacityMix) groupOf(gone *corev1.Pod) governing.GroupKey {
	changes := pl.Changes()
	if last := pl.departed.Load(); last != nil && last.pod == gone && last.changes == changes {
		return last.group
	}
	p, _ := pl.resolver.Resolve(gone)
	member, _ := pl.Member(gone, p)
	pl.departed.Store(&departed{gone, changes, member.Group})
	return member.Group
}

// siblings reports whether two pods have one controller, or none.
func siblings(a, b *corev1.Pod) bool {
	if a.Namespace != b.Namespace {
		return false
	}
	x, y := metav1.GetControllerOfNoCopy(a), metav1.GetControllerOfNoCopy(b)
	if x == nil || y == nil {
		return x == y
	}
	return x.UID == y.UID
}

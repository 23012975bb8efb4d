// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"context"
	"hash/fnv"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/kube/podphase"
	"berth.dev/berth/plugins/internal/reservationstate"
)

// Reasons for which a pod with bind mode TwoPhase has no node.
const (
	ErrReasonNoController = "bind mode TwoPhase: the pod has no controller, and the policy no groupLabelKey"
	ErrReasonNoGroupLabel = "bind mode TwoPhase: the pod has no label "
	ErrReasonNoPreparer   = "bind mode TwoPhase requires the plugin Reservation in the scheduler's profile"
	ErrReasonIncomplete   = "the pod's group was not complete in time"
)

// preparer prepares the bindings of pods, and keeps their capacity if the scheduler is killed before it binds all of a group.
type preparer interface {
	// Prepare returns the name of the Reservation that it makes, empty for a pod that needs none.
	Prepare(ctx context.Context, pod *corev1.Pod, node, group string, expires time.Duration) (string, error)
	Cancel(ctx context.Context, namespace, name string) error
	// Prepared returns the names of the pods of a group that are prepared.
	Prepared(namespace, group string) []string
}

// setGroup finds the group that a pod is bound with.
func (pl *SchedulingPolicy) setGroup(c *cycle, pod *corev1.Pod) *fwk.Status {
	if c.governor.rules.GroupSize == 0 {
		return nil
	}
	p, ok := pl.preparer()
	if !ok {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReasonNoPreparer)
	}
	c.preparer = p
	if c.group = c.governor.groupOf(pod); c.group != "" {
		return nil
	}
	reason := ErrReasonNoController
	if key := c.governor.rules.GroupLabelKey; key != "" {
		reason = ErrReasonNoGroupLabel + key
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
}

// groupOf identifies the group of a pod in its namespace, by a value that a label can have. It is empty if the pod has none.
func (g *governor) groupOf(pod *corev1.Pod) string {
	member := pod.Labels[g.rules.GroupLabelKey]
	if owner := metav1.GetControllerOfNoCopy(pod); g.rules.GroupLabelKey == "" && owner != nil {
		member = string(owner.UID)
	}
	if member == "" {
		return ""
	}
	policy := "profile"
	if g.policy != nil {
		policy = string(g.policy.Object.UID)
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(policy + "/" + member)) // never fails
	return strconv.FormatUint(hash.Sum64(), 36)
}

// Permit has a pod wait until its group has enough members with a node.
func (pl *SchedulingPolicy) Permit(_ context.Context, cycleState fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
	c := read(cycleState)
	if c == nil || c.group == "" {
		return nil, 0
	}
	allowed, complete := pl.groups.Join(groupKey(pod, c), pod.Name, pod.UID, pl.settled(c, pod), c.governor.rules.GroupSize)
	if !complete {
		return fwk.NewStatus(fwk.Wait), c.governor.rules.ReservationTimeout
	}
	for _, uid := range allowed {
		if w := pl.handle.GetWaitingPod(uid); w != nil {
			w.Allow(Name)
		}
	}
	return nil, 0
}

func groupKey(pod *corev1.Pod, c *cycle) string { return pod.Namespace + "/" + c.group }

// settled are the other members of a group that are bound, or whose binding a scheduler prepared that did not complete it.
func (pl *SchedulingPolicy) settled(c *cycle, pod *corev1.Pod) sets.Set[string] {
	members := sets.New(c.preparer.Prepared(pod.Namespace, c.group)...)
	all, err := pl.handle.SharedInformerFactory().Core().V1().Pods().Lister().Pods(pod.Namespace).List(labels.Everything())
	if err != nil {
		return members // a cache does not fail
	}
	for _, other := range all {
		if other.Spec.NodeName == "" || podphase.Finished(other) || other.DeletionTimestamp != nil {
			continue
		}
		if g := pl.governorOf(other); g != nil && g.groupOf(other) == c.group {
			members.Insert(other.Name)
		}
	}
	return members
}

// prepare makes a Reservation for the pod, and returns when one is made for each pod that is bound with it: a scheduler that is
// killed from then on leaves a group that the next one completes.
func (pl *SchedulingPolicy) prepare(ctx context.Context, c *cycle, state fwk.CycleState, pod *corev1.Pod, nodeName string) error {
	key := groupKey(pod, c)
	if r := reservationstate.Read(state); !pl.groups.Alone(key, pod.UID) && (r == nil || r.Annotations() == nil) {
		name, err := c.preparer.Prepare(ctx, pod, nodeName, c.group, c.governor.rules.ReservationTimeout)
		if err != nil {
			return err
		}
		c.prepared = name
	}
	return pl.groups.Prepared(ctx, key, pod.UID)
}

// leave gives up the place of a pod in its group, and with it the group, unless that is being bound.
func (pl *SchedulingPolicy) leave(ctx context.Context, c *cycle, pod *corev1.Pod) {
	if c.group == "" {
		return
	}
	committed, aborted := pl.groups.Leave(groupKey(pod, c), pod.UID)
	for _, uid := range aborted {
		if w := pl.handle.GetWaitingPod(uid); w != nil {
			w.Reject(Name, ErrReasonIncomplete)
		}
	}
	if committed {
		c.prepared = "" // the capacity is kept for the next attempt, also if this is called again
	}
	pl.cancel(ctx, c, pod)
}

// boundWithGroup ends the preparation of a pod that is bound.
func (pl *SchedulingPolicy) boundWithGroup(ctx context.Context, c *cycle, pod *corev1.Pod) {
	if c.group != "" {
		_, _ = pl.groups.Leave(groupKey(pod, c), pod.UID)
		pl.cancel(ctx, c, pod)
	}
}

// cancel deletes the Reservation that was made for a pod. If that fails, it expires.
func (pl *SchedulingPolicy) cancel(ctx context.Context, c *cycle, pod *corev1.Pod) {
	if c.prepared == "" {
		return
	}
	if err := c.preparer.Cancel(ctx, pod.Namespace, c.prepared); err != nil {
		klog.FromContext(ctx).Error(err, "Delete the Reservation of a pod that was prepared", "reservation", klog.KRef(pod.Namespace, c.prepared))
	}
	c.prepared = ""
}

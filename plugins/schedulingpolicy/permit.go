// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/plugins/internal/cyclestate"
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

// nameOf names the group of a pod for users.
func (g *governor) nameOf(pod *corev1.Pod) string {
	if key := g.rules.GroupLabelKey; key != "" {
		return key + "=" + pod.Labels[key]
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.Name
	}
	return ""
}

// waitSlack is what the scheduler's own limit of a wait has more than that of the group, whose message names the group.
const waitSlack = 5 * time.Second

// Permit has a pod wait until its group has enough members with a node.
func (pl *SchedulingPolicy) Permit(_ context.Context, cycleState fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
	c := read(cycleState)
	if c == nil {
		return nil, 0
	}
	if c.noteReservation(cycleState); c.group == "" {
		return nil, 0
	}
	key := groupKey(pod, c)
	var allowed []types.UID
	var complete bool
	pl.size(c, pod, func(settled *settled, size int) {
		allowed, complete = pl.groups.Join(key, pod.Name, pod.UID, settled, size)
	})
	if !complete {
		timeout := c.governor.rules.ReservationTimeout
		c.expiry = time.AfterFunc(timeout, func() { pl.reject(pod.UID, pl.incomplete(c, pod)) })
		pl.waits.add(key, pl, c, pod)
		// The first that waits has the others tried at once. Else they come when their own back-off ends, which can be longer than
		// this one waits: members that miss each other once would miss each other each time.
		if len(pl.groups.Waiting(key)) == 1 {
			pl.tasks.Add(task{namespace: pod.Namespace, key: key, wake: true})
		}
		return fwk.NewStatus(fwk.Wait), timeout + waitSlack
	}
	pl.waits.remove(key, pl.groups)
	pl.allow(allowed)
	return nil, 0
}

func (pl *SchedulingPolicy) allow(pods []types.UID) {
	for _, uid := range pods {
		if w := pl.handle.GetWaitingPod(uid); w != nil {
			w.Allow(Name)
		}
	}
}

func (pl *SchedulingPolicy) reject(pod types.UID, reason string) {
	if w := pl.handle.GetWaitingPod(pod); w != nil {
		w.Reject(Name, reason)
	}
}

func groupKey(pod *corev1.Pod, c *cycle) string { return pod.Namespace + "/" + c.group }

// size calls a function with the settled members of a pod's group, and how many members have to be here.
func (pl *SchedulingPolicy) size(c *cycle, pod *corev1.Pod, call func(settled *settled, size int)) {
	of := pl.owners.crewOf(pod, c.governor.rules.GroupLabelKey)
	prepared := c.preparer.Prepared(pod.Namespace, c.group)
	pl.census.with(groupKey(pod, c), prepared, func(settled *settled, succeeded int) {
		call(settled, needed(c.governor.rules.GroupSize, of, succeeded))
	})
}

// incomplete is why a pod that waits for its group gives its node back.
func (pl *SchedulingPolicy) incomplete(c *cycle, pod *corev1.Pod) (reason string) {
	pl.size(c, pod, func(settled *settled, size int) {
		reason = fmt.Sprintf("%s: group %s: %d of %d members are here, groupSize is %d", ErrReasonIncomplete,
			c.governor.nameOf(pod), pl.groups.Count(groupKey(pod, c), settled), size, c.governor.rules.GroupSize)
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			if atOnce := pl.owners.crew(pod.Namespace, owner).atOnce; atOnce < size {
				reason += fmt.Sprintf("; %s %s creates %d at once, and the group waits for pods of other controllers", owner.Kind, owner.Name, atOnce)
			}
		}
	})
	return reason
}

// stopWaiting ends the limit of the wait for the group.
func (c *cycle) stopWaiting() {
	if c.expiry != nil {
		c.expiry.Stop()
	}
}

// prepare makes a Reservation for the pod, and returns when one is made for each pod that is bound with it: a scheduler that is
// killed from then on leaves a group that the next one completes.
func (pl *SchedulingPolicy) prepare(ctx context.Context, c *cycle, state fwk.CycleState, pod *corev1.Pod, nodeName string) error {
	key := groupKey(pod, c)
	if r := cyclestate.ReadReserved(state); !pl.groups.Alone(key, pod.UID) && (r == nil || r.Annotations() == nil) {
		name, err := c.preparer.Prepare(ctx, pod, nodeName, c.group, c.governor.rules.ReservationTimeout)
		if err != nil {
			return err
		}
		c.prepared = name
	}
	// It is confirmed at once, so that no other member waits for a pod that fails, and with all others when the group is committed:
	// some wait for a volume long after others were prepared. All of the group is tried again if one is not confirmed.
	confirm := func() error { return cyclestate.Confirm(state, pod) }
	if err := confirm(); err != nil {
		return err
	}
	if err := pl.groups.Prepared(ctx, key, pod.UID, confirm); err != nil {
		return err
	}
	cyclestate.Commit(state)
	return nil
}

// leave gives up the place of a pod in its group, and with it the group, unless that is being bound.
func (pl *SchedulingPolicy) leave(ctx context.Context, c *cycle, pod *corev1.Pod) {
	if c.group == "" {
		return
	}
	c.stopWaiting()
	key, reason := groupKey(pod, c), ""
	if len(pl.groups.Waiting(key)) > 0 {
		reason = pl.incomplete(c, pod)
	}
	committed, aborted := pl.groups.Leave(key, pod.UID)
	pl.waits.remove(key, pl.groups)
	for _, uid := range aborted {
		pl.reject(uid, reason)
	}
	if committed {
		c.prepared = "" // the capacity is kept for the next attempt, also if this is called again
	}
	pl.cancel(ctx, c, pod)
}

// boundWithGroup ends the preparation of a pod that is bound.
func (pl *SchedulingPolicy) boundWithGroup(ctx context.Context, c *cycle, pod *corev1.Pod) {
	if c.group != "" {
		c.stopWaiting()
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

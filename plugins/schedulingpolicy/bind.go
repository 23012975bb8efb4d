// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/kube/pods"
)

// Bind locks the node and verifies that the pod still fits, or waits until the other pods of the group are prepared, for
// policies that request it, and leaves the binding to the plugins after it. It runs later than PreBind: volumes, which can take
// minutes, are bound before.
func (pl *SchedulingPolicy) Bind(ctx context.Context, cycleState fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	c := read(cycleState)
	if c == nil {
		return skip
	}
	c.stopWaiting()
	if timeout := c.governor.rules.ReservationTimeout; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.reserved.Add(timeout).Sub(pl.clock.Now()), errReservationOver)
		defer cancel()
	}
	var err error
	switch {
	case c.governor.rules.LockTimeout > 0:
		err = pl.lock(ctx, c, pod, nodeName)
	case c.group != "":
		err = pl.prepare(ctx, c, cycleState, pod, nodeName)
	}
	c.noteReservation(cycleState)
	if err == nil {
		err = context.Cause(ctx) // also if there was nothing to wait for
	}
	if err != nil {
		return fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	return skip
}

// errLockTimeout and errReservationOver are why waiting ends.
var (
	errLockTimeout     = errors.New("spec.bind.lockTimeoutSeconds is over")
	errReservationOver = errors.New("spec.bind.reservationSeconds is over")
)

// lock locks the node, and keeps the lock in the cycle until the pod is bound or given up.
func (pl *SchedulingPolicy) lock(ctx context.Context, c *cycle, pod *corev1.Pod, nodeName string) error {
	known, err := pl.handle.SharedInformerFactory().Core().V1().Nodes().Lister().Get(nodeName)
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeoutCause(ctx, c.governor.rules.LockTimeout, errLockTimeout)
	defer cancel()
	unlock, err := pl.locks.Lock(waiting, known)
	if err != nil {
		return err
	}
	if err := pl.verify(ctx, pod, nodeName); err != nil {
		unlock()
		return err
	}
	c.unlock = unlock
	return nil
}

// verifyTimeout bounds the reads of verify, which take place under the lock.
const verifyTimeout = 5 * time.Second

// verify reads a node and its pods from the API server, not from a cache that can be behind, and admits the pod as the kubelet
// would.
func (pl *SchedulingPolicy) verify(ctx context.Context, pod *corev1.Pod, nodeName string) error {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	core := pl.handle.ClientSet().CoreV1()
	node, err := core.Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("verify the node: %w", err)
	}
	onNode := fields.OneTermEqualSelector("spec.nodeName", nodeName).String()
	pods, err := core.Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: onNode})
	if err != nil {
		return fmt.Errorf("verify node %s: list its pods: %w", nodeName, err)
	}
	return pl.admits(node, pods.Items, pod)
}

// admits returns why a node with pods does not admit another one, nil if it does.
func (pl *SchedulingPolicy) admits(node *corev1.Node, others []corev1.Pod, pod *corev1.Pod) error {
	info := pl.admission.NodeInfo(node)
	for i := range others {
		p := &others[i]
		if pods.Finished(p) || p.UID == pod.UID {
			continue // it uses no capacity, or is this pod, whose first binding was not answered
		}
		info.AddPodInfo(pl.admission.PodInfo(p))
	}
	if reasons := pl.admission.Refusals(pod, info, true); len(reasons) > 0 {
		return fmt.Errorf("node %s does not admit the pod any more: %s", node.Name, strings.Join(reasons, ", "))
	}
	return nil
}

// release unlocks the node. It can be called without a lock, and twice.
func (c *cycle) release() {
	if c.unlock != nil {
		c.unlock()
	}
}

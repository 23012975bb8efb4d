// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/placeholder"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/simulation"
)

// provision requests the capacity that the replacement of a replica needs, by a placeholder pod. Either there is one then,
// or the replica is held back.
func (c *Controller) provision(ctx context.Context, w *evaluation, v rebalance.Verdict) {
	pod, hold := c.proof.placeholder(ctx, w, v)
	if hold == nil {
		pod, hold = c.holders.create(ctx, w, v, pod)
	}
	if hold != nil {
		w.HoldBack(hold)
		return
	}
	w.Placeholders = append(slices.Clone(w.Placeholders), rebalance.Placeholder{
		UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Replica: v.Pod.UID, ReplicaName: v.Pod.Name,
		Holder: rebalance.Holder{Target: v.Target, Created: w.now},
	})
	w.Held = maps.Clone(w.Held) // that there is no capacity is what the placeholder is for
	delete(w.Held, string(v.Pod.UID))
	placeholders.WithLabelValues(holderCreated).Inc()
	log.FromContext(ctx).Info("Created a placeholder", "placeholder", pod.Name, "pod", v.Pod.Name, "type", v.Target, "message", v.Message)
	c.Recorder.Eventf(w.Group.Workload.Reference(), corev1.EventTypeNormal, v1alpha1.EventReasonProvisioning,
		"Created placeholder %s: %s. The pod is evicted once the placeholder runs", pod.Name, v.Message)
}

// placeholder makes the pod that is to be created.
func (p *prover) placeholder(ctx context.Context, w *evaluation, v rebalance.Verdict) (*corev1.Pod, *rebalance.Hold) {
	if p.Profile.Label.Key == "" {
		return nil, w.refused(v, "there is no node label by which a pod could be limited to %s (capacityTypeLabel)", v.Target)
	}
	replica, hold := p.api.replica(ctx, w, v)
	if hold != nil {
		return nil, hold
	}
	next, hold := p.successor(ctx, w, v, replica)
	if hold != nil {
		return nil, hold
	}
	if what := placeholder.Unable(next.admitted); what != "" {
		return nil, w.refused(v, "pod %s uses %s, which a placeholder cannot hold", v.Pod.Name, what)
	}
	var volumes []*corev1.NodeSelector
	err := p.api.bounded(ctx, func(ctx context.Context) (err error) { volumes, err = p.api.volumesOf(ctx, next.admitted); return err })
	if err != nil {
		return nil, w.hold(v, rebalance.ReasonCapacityUnproven, holdRefused, "%v", err)
	}
	size := p.Placeholders.SizeOf(next.admitted)
	domains, hold := p.domains(ctx, w, v, next.admitted, simulation.Holder{Replica: v.Pod.UID, Labels: placeholder.Labels(v.Pod.UID, size)})
	if hold != nil {
		return nil, hold
	}
	if domains.Unable != "" {
		return nil, w.refused(v, "%s", domains.Unable)
	}
	return placeholder.Pod(placeholder.Assignment{
		Replica: replica, Next: next.admitted, Type: v.Target, Label: p.Profile.Label, Tolerations: w.Group.Governing.Tolerations[v.Target],
		Size: size, Volumes: volumes,
		Domains: domains.Requirements, DropAffinity: domains.Affinity, DropAntiAffinity: domains.AntiAffinity,
	}, p.Placeholders.Image), nil
}

// create creates a placeholder, or finds the one that there is: of an earlier
// leader, or of a call whose answer was lost.
func (hs *holders) create(ctx context.Context, w *evaluation, v rebalance.Verdict, pod *corev1.Pod) (*corev1.Pod, *rebalance.Hold) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	created, err := hs.Client.CoreV1().Pods(pod.Namespace).Create(call, pod, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		created, err = hs.Client.CoreV1().Pods(pod.Namespace).Get(call, pod.Name, metav1.GetOptions{})
		if err == nil && (created.DeletionTimestamp != nil || created.Labels[v1alpha1.PlaceholderLabel] != string(v.Pod.UID)) {
			err = fmt.Errorf("there is another pod %s", pod.Name)
		}
	}
	if err != nil {
		return nil, w.refused(v, "%v", err)
	}
	return created, nil
}

// refused holds a workload back that would need a placeholder and gets none.
func (w *evaluation) refused(v rebalance.Verdict, format string, args ...any) *rebalance.Hold {
	placeholders.WithLabelValues(holderRefused).Inc()
	return w.hold(v, rebalance.ReasonNoPlaceholder, holdInsufficientCapacity, "%s; no placeholder: %s", v.Message,
		fmt.Sprintf(format, args...))
}

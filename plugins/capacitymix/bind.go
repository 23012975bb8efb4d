// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/policy"
)

// Bind binds the pod and writes its slot on it. The API server merges the
// annotations of a Binding into the pod in the same transaction, so this is the
// one call that the stock scheduler makes as well. Pods without a mix are left
// to DefaultBinder, which must come after.
func (pl *CapacityMix) Bind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	c := cycleOf(state)
	if c == nil {
		return skip
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: annotations(c, pod)},
		Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName},
	}
	logger := klog.FromContext(ctx)
	logger.V(3).Info("Attempting to bind pod to node", "pod", klog.KObj(pod), "node", klog.KRef("", nodeName), "slot", c.slot)
	if err := pl.underway.bind(ctx, func() error { return pl.bind(ctx, binding) }); err != nil {
		return fwk.AsStatus(err)
	}
	n, _ := pl.ledger.Node(nodeName)
	placements.WithLabelValues(c.wants.String(), n.Type.String()).Inc()
	if n.Type != c.wants {
		pl.reports.borrowed(pod, c, n.Type, nodeName)
	}
	return nil
}

// bind makes the call as DefaultBinder does.
func (pl *CapacityMix) bind(ctx context.Context, binding *corev1.Binding) error {
	if err := pl.fenced(ctx); err != nil {
		return err
	}
	cacher := pl.handle.APICacher()
	if cacher == nil {
		return pl.handle.ClientSet().CoreV1().Pods(binding.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	}
	done, err := cacher.BindPod(binding)
	if err != nil {
		return err
	}
	return cacher.WaitOnFinish(ctx, done)
}

// annotations are what the pod carries from its Binding on.
func annotations(c *cycle, pod *corev1.Pod) map[string]string {
	if c.settled {
		return nil // they are there
	}
	return claimAnnotations(pod, c.slot, c.wants, c.policy)
}

func claimAnnotations(pod *corev1.Pod, number int, t capacity.Type, p *policy.Policy) map[string]string {
	a := map[string]string{
		v1alpha1.SlotAnnotation:         strconv.Itoa(number),
		v1alpha1.CapacityTypeAnnotation: t.String(),
		v1alpha1.MixAnnotation:          p.Source,
	}
	// The ReplicaSet controller removes the lowest cost first, so the highest
	// slot. A cost that the user set says more than ours.
	if _, own := pod.Annotations[v1alpha1.PodDeletionCostAnnotation]; !own {
		a[v1alpha1.PodDeletionCostAnnotation] = policy.DeletionCost(number)
	}
	return a
}

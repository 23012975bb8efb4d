// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/internal/metrics"
)

// Bind binds the pod and writes its slot on it. The API server merges the
// annotations of a Binding into the pod in the same transaction, so this is the
// one call that the stock scheduler makes as well. Pods without a mix are left
// to DefaultBinder, which must come after.
func (pl *CapacityMix) Bind(ctx context.Context, cycleState fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	s := readState(cycleState)
	if s == nil {
		return skip
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: annotations(s, pod)},
		Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName},
	}
	logger := klog.FromContext(ctx)
	logger.V(3).Info("Attempting to bind pod to node", "pod", klog.KObj(pod), "node", klog.KRef("", nodeName), "slot", s.slot)
	if err := pl.Bindings.Do(ctx, func() error { return pl.bind(ctx, binding) }); err != nil {
		return fwk.AsStatus(err)
	}
	n, _ := pl.Ledger.Node(nodeName)
	metrics.Placements.WithLabelValues(s.slotType.String(), n.Type.String()).Inc()
	if n.Type != s.slotType {
		pl.Events.Borrowed(pod, s.slot, s.slotType, n.Type, nodeName)
	}
	return nil
}

// bind makes the call as DefaultBinder does.
func (pl *CapacityMix) bind(ctx context.Context, binding *corev1.Binding) error {
	if err := pl.WaitIfFenced(ctx); err != nil {
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

// annotations are those of the pod's Binding.
func annotations(s *preFilterState, pod *corev1.Pod) map[string]string {
	if s.ungated {
		return nil // the ungater wrote them
	}
	return ledger.Annotations(pod, s.slot, s.slotType, s.policy)
}

// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/internal/binding"
	"berth.dev/berth/plugins/internal/cyclestate"
	"berth.dev/berth/plugins/internal/metrics"
)

// Bind binds the pod and writes its slot on it. Pods without a mix are left to
// the plugins after it.
func (pl *CapacityMix) Bind(ctx context.Context, cycleState fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	s := readState(cycleState)
	if s == nil {
		if pl.missedMix(pod) && !cyclestate.Committed(cycleState) { // its next cycle begins after its back-off
			return fwk.NewStatus(fwk.Unschedulable, ErrReasonMixChanged)
		}
		return skip
	}
	if !s.ungated && (s.changes != pl.Changes() || s.avoids != nil) {
		// The queue tries a pod again, after its back-off, that is refused here.
		if err := s.confirm(pod, cyclestate.Committed(cycleState)); err != nil {
			return fwk.NewStatus(fwk.Unschedulable, err.Error())
		}
	}
	n, _ := pl.Ledger.Node(nodeName)
	b := binding.Of(pod, nodeName, annotations(cycleState, s, pod))
	b.Labels = pl.floorLabel(s.governing, pod, n.Type)
	logger := klog.FromContext(ctx)
	logger.V(3).Info("Attempting to bind pod to node", "pod", klog.KObj(pod), "node", klog.KRef("", nodeName), "slot", s.slot)
	if err := pl.Bindings.Do(ctx, func() error { return pl.bind(ctx, b) }); err != nil {
		return fwk.AsStatus(err)
	}
	metrics.Placements.WithLabelValues(s.slotType.String(), n.Type.String()).Inc()
	if n.Type != s.slotType {
		pl.Events.Borrowed(pod, s.slot, s.slotType, n.Type, nodeName)
	}
	return nil
}

// missedMix reports whether a mix that came after the pod was placed without one gives it a slot. The chart of a workload may create its
// mix last: the pods that are not bound by then follow it, however long they waited for their group or for a volume.
func (pl *CapacityMix) missedMix(pod *corev1.Pod) bool {
	if pl.Changes() == 0 || pl.Classifier.Pins(&pod.Spec) {
		return false
	}
	p, _ := pl.resolver.Resolve(pod)
	return p != nil
}

// bind makes the call, unless this process may not lead any more.
func (pl *CapacityMix) bind(ctx context.Context, b *corev1.Binding) error {
	if err := pl.WaitIfFenced(ctx); err != nil {
		return err
	}
	err := binding.Make(ctx, pl.handle, b)
	if err != nil && !binding.Refused(err) {
		pl.Ledger.Doubt(b.UID)
	}
	return err
}

// floorLabel is the label by which a PodDisruptionBudget of berth-controller selects the pod once it runs on on-demand, nil for none. With
// it in the Binding, no eviction comes before it. API servers older than 1.35 ignore labels of Bindings, and berth-controller writes it.
func (pl *CapacityMix) floorLabel(m *governing.Mix, pod *corev1.Pod, on capacity.Type) map[string]string {
	if m == nil || !m.ProtectFloor || m.Mix.MinOnDemand == 0 || on != capacity.OnDemand {
		return nil
	}
	if _, is := pod.Labels[v1alpha1.FloorLabel]; is {
		return nil
	}
	member, ok := pl.Member(pod, m)
	if !ok || member.Unit != "" {
		return nil
	}
	return map[string]string{v1alpha1.FloorLabel: governing.FloorLabel(member.Group)}
}

// annotations are those of the pod's Binding.
func annotations(cycleState fwk.CycleState, s *preFilterState, pod *corev1.Pod) map[string]string {
	var all map[string]string // of an ungated pod: the ungater wrote them
	if !s.ungated {
		all = ledger.Annotations(pod, s.slot, s.governing.Mix.TypeOf(s.slot), s.governing)
	}
	if r := cyclestate.ReadReserved(cycleState); r != nil {
		if all == nil {
			return r.Annotations()
		}
		maps.Copy(all, r.Annotations())
	}
	return all
}

// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// keepCapacityMix keeps of the status what a new leader of berth-controller continues with.
func keepCapacityMix(m *v1alpha1.CapacityMix) *v1alpha1.CapacityMix {
	out := &v1alpha1.CapacityMix{ObjectMeta: keepMeta(&m.ObjectMeta), Spec: *m.Spec.DeepCopy()}
	out.Status.ObservedGeneration = m.Status.ObservedGeneration
	for i := range m.Status.Workloads {
		w := &m.Status.Workloads[i]
		if w.MixNotSatisfiedSince == nil && w.FailedMoves == 0 && w.RetryTime == nil {
			continue
		}
		out.Status.Workloads = append(out.Status.Workloads, v1alpha1.WorkloadMix{
			Kind: w.Kind, Name: w.Name, Revision: w.Revision, Role: w.Role, Replicas: w.Replicas,
			MixNotSatisfiedSince: w.MixNotSatisfiedSince.DeepCopy(), FailedMoves: w.FailedMoves, RetryTime: w.RetryTime.DeepCopy(),
		})
	}
	return out
}

// keepResourceLimit keeps neither the description nor the paths of volumes.
func keepResourceLimit(l *v1alpha1.ResourceLimit) *v1alpha1.ResourceLimit {
	out := &v1alpha1.ResourceLimit{ObjectMeta: keepMeta(&l.ObjectMeta)}
	out.Spec = *l.Spec.DeepCopy()
	out.Spec.Description = ""
	for name, v := range out.Spec.Volumes {
		v.MountPath = ""
		out.Spec.Volumes[name] = v
	}
	return out
}

func keepSchedulingPolicy(p *v1alpha1.SchedulingPolicy) *v1alpha1.SchedulingPolicy {
	return &v1alpha1.SchedulingPolicy{ObjectMeta: keepMeta(&p.ObjectMeta), Spec: *p.Spec.DeepCopy()}
}

func keepReservation(r *v1alpha1.Reservation) *v1alpha1.Reservation {
	out := &v1alpha1.Reservation{ObjectMeta: keepMeta(&r.ObjectMeta), Spec: *r.Spec.DeepCopy()}
	out.Status = v1alpha1.ReservationStatus{
		ObservedGeneration: r.Status.ObservedGeneration, HeldCount: r.Status.HeldCount, UsedCount: r.Status.UsedCount,
		ExpirationTime: r.Status.ExpirationTime.DeepCopy(),
	}
	for _, h := range r.Status.Holds {
		out.Status.Holds = append(out.Status.Holds, v1alpha1.Hold{NodeName: h.NodeName, PodName: h.PodName, PodUID: h.PodUID})
	}
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		out.Status.Conditions = append(out.Status.Conditions, metav1.Condition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, ObservedGeneration: c.ObservedGeneration,
			LastTransitionTime: c.LastTransitionTime,
		})
	}
	return out
}

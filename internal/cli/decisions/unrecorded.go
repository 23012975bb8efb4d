// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/kinds"
	"berth.dev/berth/internal/policies/registry"
)

// unrecorded is why a scheduler likely has no record of a pod. berths is set for a pod that berth-scheduler schedules.
func unrecorded(ctx context.Context, c client.Client, pod *corev1.Pod, berths bool) string {
	if !berths {
		return fmt.Sprintf("scheduler %s schedules the pod, not berth-scheduler", pod.Spec.SchedulerName)
	}
	objects, err := kinds.List[*v1alpha1.SchedulingPolicy](ctx, c, &v1alpha1.SchedulingPolicyList{}, client.InNamespace(pod.Namespace))
	if err != nil {
		return fmt.Sprintf("decisions.record of its SchedulingPolicy determines which attempts are recorded, and the policies cannot be read: %v", err)
	}
	governing := registry.Governing(registry.OldestFirst(objects), pod.Labels)
	if governing == nil {
		return fmt.Sprintf("no SchedulingPolicy in namespace %s governs the pod, and without one only a defaultPolicy with decisions.record in "+
			"the profile of the scheduler records attempts", pod.Namespace)
	}
	name, rules := governing.Object.Name, governing.Rules
	switch rules.Record {
	case v1alpha1.RecordNever:
		return fmt.Sprintf("SchedulingPolicy %s has decisions.record Never", name)
	case v1alpha1.RecordOnFailure:
		return fmt.Sprintf("SchedulingPolicy %s has decisions.record OnFailure, so attempts that bind the pod are not recorded", name)
	}
	return fmt.Sprintf("SchedulingPolicy %s has decisions.record %s, but records are kept for %s (decisions.ttlSeconds), and only until another "+
		"scheduler leads", name, rules.Record, rules.TTL)
}

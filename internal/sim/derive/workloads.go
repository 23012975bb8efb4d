// SPDX-License-Identifier: Apache-2.0

package derive

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/internal/sim/scenario"
)

// scheduler is the name of Berth's scheduler beside another one.
const scheduler = "berth-scheduler"

// workload returns a workload of the scenario without name and budget, and whether a node pool has nodes for its pods.
func (d *deriver) workload(w *workload, pools []scenario.NodePool) (of scenario.Workload, fits bool) {
	like := w.like()
	if !w.sized {
		w.size(requests(like))
	}
	fits = w.cpu.Sign() >= 0 && w.memory.Sign() >= 0 && slices.ContainsFunc(pools, func(p scenario.NodePool) bool {
		return w.cpu.Cmp(p.CPU) <= 0 && w.memory.Cmp(p.Memory) <= 0
	})
	if !fits {
		return of, false
	}
	of.Replicas = int32(min(w.replicas, scenario.MaxPods)) //nolint:gosec // bounded
	of.CPU, of.Memory = rounded(w.cpu, resource.Milli), rounded(w.memory, 0)
	of.StartupSeconds = w.startup()
	of.Mix = d.mix(w)
	d.different(w, &like.Spec, of.Mix != nil)
	return of, true
}

// rounded is a quantity without parts that a scenario has no use for.
func rounded(q resource.Quantity, scale resource.Scale) resource.Quantity {
	q = q.DeepCopy()
	q.RoundUp(scale)
	return q
}

// different notes what of a workload the scenario does not have.
func (d *deriver) different(w *workload, s *corev1.PodSpec, mixed bool) {
	affinity := s.Affinity
	if affinity == nil {
		affinity = &corev1.Affinity{}
	}
	node := affinity.NodeAffinity
	for c, is := range map[cause]bool{
		unequalPods:     w.unequal,
		unstarted:       len(w.starts) == 0,
		otherSchedulers: mixed && s.SchedulerName != scheduler,
		nodeSelectors:   len(s.NodeSelector) > 0 || node != nil && node.RequiredDuringSchedulingIgnoredDuringExecution != nil,
		topology:        affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil || len(s.TopologySpreadConstraints) > 0,
		devices:         len(s.ResourceClaims) > 0 || otherResources(s),
		volumes: slices.ContainsFunc(s.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
		}),
		hostPorts: slices.ContainsFunc(s.Containers, func(c corev1.Container) bool { return len(c.Ports) > 0 }),
	} {
		if is {
			d.notes.add(c, w.title())
		}
	}
}

// otherResources reports whether a pod requests what the nodes of a scenario do not have.
func otherResources(s *corev1.PodSpec) bool {
	return slices.ContainsFunc(s.Containers, func(c corev1.Container) bool {
		for name := range c.Resources.Requests {
			if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
				return true
			}
		}
		return false
	})
}

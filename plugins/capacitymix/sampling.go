// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/capacity"
)

// sampleLooks bounds how many nodes are looked at per node of the sample: in a
// full cluster it is cheaper to try all nodes than to search for a free one here.
const sampleLooks = 4

// particular reports whether a pod asks for particular nodes, which a sample
// over all nodes of a type is likely to miss. Such pods are tried on all at once.
// The entry by which an opened pod is limited to its type does not count.
func particular(pod *corev1.Pod, own string) bool {
	if selects(pod, own) {
		return true
	}
	if a := pod.Spec.Affinity; a != nil {
		if a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			return true
		}
		if a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			return true
		}
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return true // volumes tie the pod to a zone or a node
		}
	}
	return len(pod.Spec.ResourceClaims) > 0
}

// selects reports whether a pod has a nodeSelector, beside what limits it to its type.
func selects(pod *corev1.Pod, own string) bool {
	n := len(pod.Spec.NodeSelector)
	if _, limited := pod.Spec.NodeSelector[own]; n == 1 && limited && settled(pod) {
		return false
	}
	return n > 0
}

// sample returns up to sampleSize nodes of a type that seem to have room.
func (pl *CapacityMix) sample(pod *corev1.Pod, t capacity.Type) sets.Set[string] {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	cpu, memory := requests.Cpu().MilliValue(), requests.Memory().Value()
	nodes := pl.handle.SnapshotSharedLister().NodeInfos()
	names := make(sets.Set[string], pl.sampleSize)
	for _, name := range pl.ledger.Sample(t, pl.sampleSize*sampleLooks) {
		if info, err := nodes.Get(name); err == nil && hasRoom(info, cpu, memory) {
			names.Insert(name)
			if len(names) == pl.sampleSize {
				break
			}
		}
	}
	return names
}

// hasRoom is a rough, cheap form of the NodeResourcesFit filter, which still decides.
func hasRoom(info fwk.NodeInfo, cpu, memory int64) bool {
	allocatable, requested := info.GetAllocatable(), info.GetRequested()
	return requested.GetMilliCPU()+cpu <= allocatable.GetMilliCPU() &&
		requested.GetMemory()+memory <= allocatable.GetMemory() &&
		len(info.GetPods()) < allocatable.GetAllowedPodNumber()
}

// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcehelper "k8s.io/component-helpers/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
)

// sampleLooks bounds how many nodes are looked at per node of the sample: in a
// full cluster it is cheaper to try all nodes than to search for a free one here.
const sampleLooks = 4

// Every node that the framework's plugins filter and score costs it some 4 µs
// and ten allocations; to look at one here costs a hundredth. So the sample is
// ranked here, by room and by how few siblings are around, and only the best of
// it are handed on, an eighth of the sample but no fewer than this.
const fewestFinalists = 4

// rankOfSpread is what a point of Score counts for against a hundredth of a
// percent of room: the plugin's weight in the profiles that Berth ships.
const rankOfSpread = 3 * 100

// particular reports whether a pod requests particular nodes, which a sample
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
	return len(pod.Spec.ResourceClaims) > 0 || extended(pod)
}

// extended reports whether a pod requests a resource that few nodes have, as a GPU.
func extended(pod *corev1.Pod) bool {
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			for name := range containers[i].Resources.Requests {
				switch name {
				case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
				default:
					return true
				}
			}
		}
	}
	return false
}

// selects reports whether a pod has a nodeSelector, beside what limits it to its type.
func selects(pod *corev1.Pod, own string) bool {
	n := len(pod.Spec.NodeSelector)
	if _, limited := pod.Spec.NodeSelector[own]; n == 1 && limited && settled(pod) {
		return false
	}
	return n > 0
}

// choosy reports whether a pod says itself which of the nodes it can have are
// better or worse, or has rules that are not looked at here: then the whole
// sample is handed on, for the other plugins to choose from.
func choosy(pod *corev1.Pod) bool {
	if len(pod.Spec.TopologySpreadConstraints) > 0 || pod.Labels[v1alpha1.ResourceLimitLabel] != "" {
		return true
	}
	if a := pod.Spec.Affinity; a != nil && (a.NodeAffinity != nil || a.PodAffinity != nil || a.PodAntiAffinity != nil) {
		return true
	}
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.HostPort > 0 {
				return true
			}
		}
	}
	return false
}

// candidate is a node of the sample.
type candidate struct {
	name  string
	crowd crowd
	// free is how much of the node's CPU and memory the pod would leave free, in
	// hundredths of a percent: whole percents make equal what is not.
	free int64
	rank int64
}

// sample returns up to sampleSize nodes of a type that seem to have room, for a
// pod that is not choosy the best of them. What it found out about the spread
// stays in the cycle.
func (pl *CapacityMix) sample(pod *corev1.Pod, c *cycle) sets.Set[string] {
	all := pl.candidates(pod, c.wants)
	if len(all) == 0 {
		return nil
	}
	c.spread = pl.ledger.SpreadOf(c.group, func(yield func(string) bool) {
		for i := range all {
			if !yield(all[i].name) {
				return
			}
		}
	})
	c.least = crowded
	for i := range all {
		n, _ := pl.ledger.Node(all[i].name)
		all[i].crowd = c.crowdAt(n, all[i].name)
		c.least = c.least.fewest(all[i].crowd)
	}
	ranked := pl.rankBy != config.RankSampleByOff && !choosy(pod)
	if ranked {
		all = finalists(all, c.least, pl.rankBy)
	}
	names := make(sets.Set[string], len(all))
	for i := range all {
		names.Insert(all[i].name)
	}
	if ranked {
		c.finalists = names
	}
	return names
}

// finalists are the best of a sample; of equal ones those whose turn came first.
func finalists(all []candidate, least crowd, by config.RankSampleBy) []candidate {
	n := max(fewestFinalists, len(all)/8)
	if len(all) <= n {
		return all
	}
	for i := range all {
		all[i].rank = rankOfSpread * all[i].crowd.score(least)
		if by == config.RankSampleByMostAllocated {
			all[i].rank -= all[i].free
		} else {
			all[i].rank += all[i].free
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.rank, a.rank) })
	return all[:n]
}

// candidates are up to sampleSize nodes of a type that seem to have room: the
// best of those that were looked at before, and nodes whose turn it is.
func (pl *CapacityMix) candidates(pod *corev1.Pod, t capacity.Type) []candidate {
	cpu, memory := requests(pod)
	nodes := pl.handle.SnapshotSharedLister().NodeInfos()
	all := make([]candidate, 0, pl.sampleSize)
	look := func(name string) {
		info, err := nodes.Get(name)
		if err != nil || !tolerates(pod, info) {
			return
		}
		if free, fits := room(info, cpu, memory); fits {
			all = append(all, candidate{name: name, free: free})
		}
	}
	known := pl.known[t]
	for _, name := range known.best {
		if n, there := pl.ledger.Node(name); there && n.Takes(t) {
			look(name)
		}
	}
	for range sampleLooks {
		for _, name := range pl.ledger.Sample(t, pl.sampleSize-len(all)) {
			if !slices.Contains(known.best, name) {
				look(name)
			}
		}
		if len(all) == pl.sampleSize {
			break
		}
	}
	if pl.rankBy != config.RankSampleByOff {
		known.keep(all, pl.sampleSize/2, pl.rankBy)
	}
	return all
}

// requests is what a pod requests of CPU, in millicores, and of memory, in bytes.
func requests(pod *corev1.Pod) (cpu, memory int64) {
	s := &pod.Spec
	if len(s.InitContainers) > 0 || len(s.Overhead) > 0 || s.Resources != nil {
		r := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
		return r.Cpu().MilliValue(), r.Memory().Value()
	}
	for i := range s.Containers {
		r := s.Containers[i].Resources.Requests
		cpu += r.Cpu().MilliValue()
		memory += r.Memory().Value()
	}
	return cpu, memory
}

// tolerates asks what the TaintToleration filter asks, so that the few nodes
// that are handed on are not spent on those it refuses.
func tolerates(pod *corev1.Pod, info fwk.NodeInfo) bool {
	taints := info.Node().Spec.Taints
	if len(taints) == 0 {
		return true
	}
	_, refused := corev1helpers.FindMatchingUntoleratedTaint(taints, pod.Spec.Tolerations, keepsAway)
	return !refused
}

func keepsAway(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }

// room is a rough, cheap form of the NodeResourcesFit filter, which still
// decides, and of its score: how much would be left free, in hundredths of a percent.
func room(info fwk.NodeInfo, cpu, memory int64) (free int64, fits bool) {
	allocatable, requested := info.GetAllocatable(), info.GetRequested()
	leftCPU := allocatable.GetMilliCPU() - requested.GetMilliCPU() - cpu
	leftMemory := allocatable.GetMemory() - requested.GetMemory() - memory
	if leftCPU < 0 || leftMemory < 0 || len(info.GetPods()) >= allocatable.GetAllowedPodNumber() {
		return 0, false
	}
	return (share(leftCPU, allocatable.GetMilliCPU()) + share(leftMemory, allocatable.GetMemory())) / 2, true
}

// share is a part of a whole in hundredths of a percent.
func share(part, of int64) int64 {
	if of == 0 {
		return 0
	}
	return part * 100 * framework.MaxNodeScore / of
}

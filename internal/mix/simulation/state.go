// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// state is the nodes with their pods, in the types that plugins read. It is immutable: without and with return another
// state that shares the rest.
type state struct {
	nodes []fwk.NodeInfo // ordered by name
	// affinity and antiAffinity are the nodes with pods that have such terms.
	affinity, antiAffinity []fwk.NodeInfo
	// wideAntiAffinity are those of antiAffinity whose terms concern more than the node itself. It is empty unless the
	// feature gate InterPodAffinityHostnameFastPath is on.
	wideAntiAffinity []fwk.NodeInfo
	position         map[string]int           // of a node, by name
	placed           []placement              // a map would be copied for each pod that is added, and takes more
	nominated        map[string][]snapshotPod // by node, pods without one
}

// placement is a pod's node, by position, and its resources there.
type placement struct {
	uid  types.UID
	node int
	info fwk.PodInfo
}

// find returns where a pod is.
func (s *state) find(uid types.UID) (placement, bool) {
	for i := range s.placed {
		if s.placed[i].uid == uid {
			return s.placed[i], true
		}
	}
	return placement{}, false
}

func newState(nodes []*corev1.Node, pods []snapshotPod) *state {
	s := &state{
		nodes:     make([]fwk.NodeInfo, len(nodes)),
		position:  make(map[string]int, len(nodes)),
		placed:    make([]placement, 0, len(pods)),
		nominated: map[string][]snapshotPod{},
	}
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	for i, n := range nodes {
		s.position[n.Name] = i
		info := framework.NewNodeInfo()
		info.SetNode(n)
		s.nodes[i] = info
	}
	for _, p := range pods {
		i, known := s.position[p.node]
		switch {
		case known:
			s.nodes[i].AddPodInfo(p.info)
			s.placed = append(s.placed, placement{p.uid, i, p.info})
		case p.node == "" && p.nominated != "":
			s.nominated[p.nominated] = append(s.nominated[p.nominated], p)
		}
	}
	s.index()
	return s
}

func (s *state) index() {
	s.affinity, s.antiAffinity, s.wideAntiAffinity = nil, nil, nil
	for _, n := range s.nodes {
		if len(n.GetPodsWithAffinity()) > 0 {
			s.affinity = append(s.affinity, n)
		}
		if len(n.GetPodsWithRequiredAntiAffinity()) > 0 {
			s.antiAffinity = append(s.antiAffinity, n)
		}
		if len(n.GetPodsWithRequiredNonHostScopedAntiAffinity()) > 0 {
			s.wideAntiAffinity = append(s.wideAntiAffinity, n)
		}
	}
}

// without returns the state without some pods.
func (s *state) without(gone map[types.UID]bool) *state {
	out := *s
	changed := map[int]fwk.NodeInfo{}
	for uid := range gone {
		p, known := s.find(uid)
		if !known {
			continue
		}
		if changed[p.node] == nil {
			changed[p.node] = s.nodes[p.node].Snapshot()
		}
		// If pods share their info, an identical one is removed: the filters cannot distinguish them.
		_ = changed[p.node].RemovePod(klog.Logger{}, p.info.GetPod()) // fails for pods that are not there
	}
	out.replace(changed)
	if len(s.nominated) > 0 {
		out.nominated = withoutNominated(s.nominated, gone)
	}
	return &out
}

func withoutNominated(all map[string][]snapshotPod, gone map[types.UID]bool) map[string][]snapshotPod {
	out := maps.Clone(all)
	for node, pods := range out {
		out[node] = slices.DeleteFunc(slices.Clone(pods), func(p snapshotPod) bool { return gone[p.uid] })
	}
	return out
}

// with returns the state with a pod scheduled to a node, if the node exists.
func (s *state) with(p snapshotPod) *state {
	i, known := s.position[p.node]
	if !known {
		return s
	}
	out := *s
	node := s.nodes[i].Snapshot()
	node.AddPodInfo(p.info)
	out.replace(map[int]fwk.NodeInfo{i: node})
	out.placed = append(slices.Clip(s.placed), placement{p.uid, i, p.info})
	return &out
}

func (s *state) replace(changed map[int]fwk.NodeInfo) {
	if len(changed) == 0 {
		return
	}
	s.nodes = slices.Clone(s.nodes)
	for i, n := range changed {
		s.nodes[i] = n
	}
	s.index()
}

// view is what the plugins read: it shows one state at a time.
type view struct{ *state }

var (
	_ fwk.SharedLister = &view{}
	_ fwk.PodNominator = &view{}
)

// NodeInfos returns the nodes.
func (v *view) NodeInfos() fwk.NodeInfoLister { return v }

// StorageInfos returns which pods use which claims.
func (v *view) StorageInfos() fwk.StorageInfoLister { return v }

// List returns all nodes.
func (v *view) List() ([]fwk.NodeInfo, error) { return v.nodes, nil }

// HavePodsWithAffinityList returns the nodes of pods with affinity or anti-affinity terms.
func (v *view) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) { return v.affinity, nil }

// HavePodsWithRequiredAntiAffinityList returns the nodes of pods with required anti-affinity terms.
func (v *view) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return v.antiAffinity, nil
}

// HavePodsWithRequiredNonHostScopedAntiAffinityList returns the nodes of pods with required anti-affinity terms that
// concern more than the node itself.
func (v *view) HavePodsWithRequiredNonHostScopedAntiAffinityList() ([]fwk.NodeInfo, error) {
	return v.wideAntiAffinity, nil
}

// PodGroups returns nil, as the following do: a replay is of single pods.
func (v *view) PodGroups() fwk.PodGroupLister { return nil }

// PodGroupStates returns nil.
func (v *view) PodGroupStates() fwk.PodGroupStateLister { return nil }

// CompositePodGroups returns nil.
func (v *view) CompositePodGroups() fwk.CompositePodGroupLister { return nil }

// CompositePodGroupStates returns nil.
func (v *view) CompositePodGroupStates() fwk.CompositePodGroupStateLister { return nil }

// Get returns a node.
func (v *view) Get(name string) (fwk.NodeInfo, error) {
	if i, known := v.position[name]; known {
		return v.nodes[i], nil
	}
	return nil, fmt.Errorf("no node %q in the snapshot", name)
}

// IsPVCUsedByPods is called for ReadWriteOncePod claims only, so it may iterate over every node instead of maintaining
// a set for each state.
func (v *view) IsPVCUsedByPods(key string) bool {
	return slices.ContainsFunc(v.nodes, func(n fwk.NodeInfo) bool { return n.GetPVCRefCounts()[key] > 0 })
}

// NominatedPodsForNode returns the pods that are nominated to a node after preemption. Pods of other schedulers count
// too, because they will use the capacity as well.
func (v *view) NominatedPodsForNode(node string) []fwk.PodInfo {
	var out []fwk.PodInfo
	for _, p := range v.nominated[node] {
		out = append(out, p.info)
	}
	return out
}

// AddNominatedPod does nothing: a replay nominates no pods.
func (v *view) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}

// DeleteNominatedPodIfExists does nothing.
func (v *view) DeleteNominatedPodIfExists(*corev1.Pod) {}

// UpdateNominatedPod does nothing.
func (v *view) UpdateNominatedPod(klog.Logger, *corev1.Pod, fwk.PodInfo) {}

// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/budget"
)

// View is what is held and not used on all nodes, at one moment. It is immutable, and belongs to one scheduling cycle.
type View struct {
	nodes map[string]*held
	// uses are the pods that use capacity which is held again when they are gone.
	uses map[types.UID]*use
}

// held is what is held on a node.
type held struct {
	total Amounts
	pods  int64
}

// View returns what is held now.
func (l *Holdings) View(now time.Time) *View {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refresh(now)
	return l.view
}

// refresh determines what is held, if that may have changed. A Reservation that has expired, or of which there are too many,
// loses what it holds: if it holds capacity again later, nodes have to be found for it, as others may have used these. Guarded
// by mu.
func (l *Holdings) refresh(now time.Time) {
	if l.view != nil && (l.until.IsZero() || now.Before(l.until)) {
		return
	}
	l.view = &View{nodes: map[string]*held{}, uses: map[types.UID]*use{}}
	l.active, l.until = make(map[string][]*entry, len(l.of)), time.Time{}
	for namespace, list := range l.of {
		for rank, e := range ranked(list, now) {
			if rank >= MaxPerNamespace || e.finished(now) {
				if e.release() {
					l.count(e)
				}
				continue
			}
			l.active[namespace] = append(l.active[namespace], e)
			l.view.add(e)
			if l.until.IsZero() || e.r.Expires.Before(l.until) {
				l.until = e.r.Expires
			}
		}
	}
}

// Freed returns how often capacity was released or came to be held until now.
func (l *Holdings) Freed(now time.Time) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refresh(now) // notices what has expired
	return l.freed
}

// add counts what a Reservation holds.
func (v *View) add(e *entry) {
	for _, h := range e.holds {
		switch uid := types.UID(h.PodUID); {
		case h.free():
			n := v.nodes[h.NodeName]
			if n == nil {
				n = &held{}
				v.nodes[h.NodeName] = n
			}
			n.pods++
			n.total.add(&e.r.Unit)
		case h.binding || !e.r.Once:
			v.uses[uid] = &use{r: e.r, pod: uid, node: h.NodeName, surplus: max(0, len(e.holds)-e.r.Replicas)}
		}
	}
}

// Empty reports whether nothing is held, and nothing would be if pods were gone.
func (v *View) Empty() bool { return len(v.nodes) == 0 && len(v.uses) == 0 }

// lacking returns the first resource of which a node has too little for a pod beyond what is held there, "pods" for the number
// of pods, and "" if the pod fits. Own is capacity that is held there for the pod, nil if there is none.
func (n *held) lacking(node fwk.NodeInfo, pod *Amounts, own *Reservation) corev1.ResourceName {
	allocatable, requested := node.GetAllocatable(), node.GetRequested()
	pods, mine := n.pods, &Amounts{}
	if own != nil {
		pods, mine = pods-1, &own.Unit
	}
	if int64(len(node.GetPods()))+pods+1 > int64(allocatable.GetAllowedPodNumber()) {
		return corev1.ResourcePods
	}
	lacks := func(request, allocatable, requested, held, mine int64) bool {
		return request > 0 && request > budget.Sub(budget.Sub(allocatable, requested), budget.Sub(held, mine))
	}
	switch {
	case lacks(pod.MilliCPU, allocatable.GetMilliCPU(), requested.GetMilliCPU(), n.total.MilliCPU, mine.MilliCPU):
		return corev1.ResourceCPU
	case lacks(pod.Memory, allocatable.GetMemory(), requested.GetMemory(), n.total.Memory, mine.Memory):
		return corev1.ResourceMemory
	case lacks(pod.EphemeralStorage, allocatable.GetEphemeralStorage(), requested.GetEphemeralStorage(), n.total.EphemeralStorage,
		mine.EphemeralStorage):
		return corev1.ResourceEphemeralStorage
	}
	for name, request := range pod.Scalars {
		if lacks(request, allocatable.GetScalarResources()[name], requested.GetScalarResources()[name], n.total.Scalars[name],
			mine.Scalars[name]) {
			return name
		}
	}
	return ""
}

// LackingReason is the reason for a node that lacks a resource because of what is held there.
func LackingReason(resource corev1.ResourceName) string {
	return "node(s) hold capacity for other pods by Reservations: " + string(resource)
}

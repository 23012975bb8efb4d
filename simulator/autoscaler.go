// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/sim/scenario"
)

// scanSoon has the autoscaler look for pods without capacity at its next turn.
func (w *world) scanSoon() {
	if w.scan {
		return
	}
	w.scan = true
	now := w.clock.Now()
	w.clock.At(now.Truncate(scanEvery).Add(scanEvery), func() {
		w.scan = false
		w.scaleUp()
	})
}

// scaleUp requests nodes for the pods that the scheduler found no capacity for. The capacity type of a pod is that of its slot, as with
// the scheduling gate of Berth: it limits a pod to the type by its node affinity.
func (w *world) scaleUp() {
	var lacking []*corev1.Pod
	for _, pod := range w.unbound {
		if hasCondition(pod, corev1.PodScheduled, corev1.ConditionFalse) {
			lacking = append(lacking, pod)
		}
	}
	slices.SortFunc(lacking, func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	least := leastOf(lacking)
	for _, p := range w.pools {
		p.free = p.free[:0]
		for _, n := range p.staying() {
			if n.left.holds(least) { // most nodes are full
				p.free = append(p.free, n.left)
			}
		}
		for range p.launches {
			p.free = append(p.free, p.room())
		}
	}
	planned := plan{}
	for _, pod := range lacking {
		if p := w.scaleUpFor(pod, least, planned); p != nil {
			planned[w.ownerOf(pod)] = append(planned[w.ownerOf(pod)], p.is)
		}
	}
	if len(lacking) > 0 {
		w.scanSoon()
	}
}

// plan has the types of the nodes that are to come for the pods of a workload.
type plan map[*workload][]capacity.Type

// scaleUpFor returns the pool whose node is to come for a pod, nil for none.
func (w *world) scaleUpFor(pod *corev1.Pod, least room, planned plan) *pool {
	t := w.wantedType(pod, planned)
	var choice []*pool
	for _, p := range w.pools {
		if t != capacity.Unknown && p.is != t || !p.inZoneOf(pod) {
			continue
		}
		if p.take(pod, least) {
			return p
		}
		if w.mayLaunch(p) && p.room().holds(requests(pod)) {
			choice = append(choice, p)
		}
	}
	if len(choice) == 0 {
		return nil
	}
	p := slices.MinFunc(choice, func(a, b *pool) int {
		return cmp.Or(cmp.Compare(a.price(), b.price()), cmp.Compare(len(a.nodes)+a.launches, len(b.nodes)+b.launches))
	})
	w.launch(p)
	p.free = append(p.free, p.room())
	p.take(pod, least)
	return p
}

// inZoneOf reports whether the zone of the pool is that of a pod's node selector, if it has one.
func (p *pool) inZoneOf(pod *corev1.Pod) bool {
	zone := zoneOf(pod)
	return zone == "" || zone == p.Zone
}

// wantedType is the type that a pod has to run on, Unknown for any.
func (w *world) wantedType(pod *corev1.Pod, planned plan) capacity.Type {
	switch t := typeOf(pod); {
	case t != capacity.Unknown:
		return t
	case pod.Spec.SchedulerName == berthScheduler:
		return w.slotType(pod)
	case len(pod.Spec.TopologySpreadConstraints) > 0:
		return w.rarer(w.ownerOf(pod), planned)
	}
	return capacity.Unknown
}

// slotType is the type of a pod's slot. A pod with a spot slot follows the failure of each spot pool to on-demand, or its wait, where the
// mix lets it, as the gate does.
func (w *world) slotType(pod *corev1.Pod) capacity.Type {
	t := w.scheduler.Mix.Ledger.TypeFor(pod.UID)
	if t != capacity.Spot {
		return t
	}
	mix, _ := w.scheduler.Mix.ResolverOf(pod).Resolve(pod)
	if mix == nil || !mix.BorrowOnDemand {
		return t
	}
	failed := !slices.ContainsFunc(w.pools, func(p *pool) bool { return p.is == capacity.Spot && (w.mayLaunch(p) || p.launches > 0) })
	if failed || w.clock.Since(pod.CreationTimestamp.Time) >= mix.GatedSpotWait {
		return capacity.Unknown
	}
	return t
}

// rarer is the type with fewer pods of a workload, among those that may be launched: so does Karpenter where pods are to be spread.
func (w *world) rarer(of *workload, planned plan) capacity.Type {
	types := slices.Clone(planned[of])
	for _, p := range of.sorted(nil) {
		types = append(types, w.types[p.Spec.NodeName])
	}
	spot, onDemand := 0, 0
	for _, t := range types {
		switch t {
		case capacity.Spot:
			spot++
		case capacity.OnDemand:
			onDemand++
		}
	}
	t := capacity.OnDemand
	if spot < onDemand {
		t = capacity.Spot
	}
	if !slices.ContainsFunc(w.pools, func(p *pool) bool { return p.is == t && w.mayLaunch(p) }) {
		return capacity.Unknown
	}
	return t
}

// price orders pools: those with a price by it, then spot, then on-demand.
func (p *pool) price() float64 {
	switch {
	case p.DollarsPerHour != nil:
		return *p.DollarsPerHour
	case p.is == capacity.Spot:
		return math.MaxFloat64
	}
	return math.Inf(1)
}

func (w *world) mayLaunch(p *pool) bool {
	n := int32(len(p.nodes) + p.launches) //nolint:gosec // bounded by the scenario
	return !p.Fixed && (p.Max == nil || n < *p.Max) && len(w.nodes)+w.launching < scenario.MaxNodes && !w.clock.Now().Before(p.until)
}

// take takes what a pod requests from the first node with room for it. A node without room for the least request is left out from then on.
func (p *pool) take(pod *corev1.Pod, least room) bool {
	need := requests(pod)
	i := slices.IndexFunc(p.free, func(r room) bool { return r.holds(need) })
	if i < 0 {
		return false
	}
	if p.free[i].add(need, -1); !p.free[i].holds(least) {
		p.free = slices.Delete(p.free, i, i+1)
	}
	return true
}

// room is what a node of the pool has for pods.
func (p *pool) room() room {
	return room{cpu: p.CPU.MilliValue(), memory: p.Memory.Value(), pods: int64(p.Pods)}
}

// room is a part of a node: thousandths of a CPU, bytes and pods.
type room struct{ cpu, memory, pods int64 }

// holds reports whether a room has place for another one.
func (r room) holds(o room) bool { return r.cpu >= o.cpu && r.memory >= o.memory && r.pods >= o.pods }

// add adds another one n times.
func (r *room) add(o room, n int64) {
	r.cpu, r.memory, r.pods = r.cpu+n*o.cpu, r.memory+n*o.memory, r.pods+n*o.pods
}

// requests is what a pod needs of a node.
func requests(pod *corev1.Pod) room {
	r := room{pods: 1}
	for i := range pod.Spec.Containers {
		list := pod.Spec.Containers[i].Resources.Requests
		r.cpu, r.memory = r.cpu+list.Cpu().MilliValue(), r.memory+list.Memory().Value()
	}
	return r
}

// leastOf is the least that any of some pods requests of each resource.
func leastOf(pods []*corev1.Pod) room {
	least := room{cpu: math.MaxInt64, memory: math.MaxInt64, pods: 1}
	for _, pod := range pods {
		need := requests(pod)
		least.cpu, least.memory = min(least.cpu, need.cpu), min(least.memory, need.memory)
	}
	return least
}

// launch requests a node, which the provider may not have.
func (w *world) launch(p *pool) {
	p.launches++
	w.launching++
	over := func() {
		w.launching--
		p.launches--
	}
	w.after(min(failsAfter, seconds(p.LaunchSeconds)), func() {
		if !w.available(p) {
			over()
			w.backOff(p)
			return
		}
		w.after(max(0, seconds(p.LaunchSeconds)-failsAfter), func() {
			over()
			if !w.available(p) {
				w.backOff(p)
				return
			}
			p.wait = 0
			w.measure.launched++
			w.addNode(p)
		})
	})
}

// backOff leaves a pool out for a while, twice as long after each failure in a row. Launches that fail together are one failure.
func (w *world) backOff(p *pool) {
	w.scanSoon()
	now := w.clock.Now()
	if now.Before(p.until) {
		return
	}
	p.wait = min(max(backoffFor, 2*p.wait), backoffAtMost)
	p.until = now.Add(p.wait)
}

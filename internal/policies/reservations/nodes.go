// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	// exceededFor is for how long the pods and the capacity that is held on a node can exceed it before some is released: what is
	// known of the pods and of their node comes by two watches.
	exceededFor = 2 * time.Second

	// maxCauses is the number of causes that a condition has.
	maxCauses = 3
)

// SetNode takes over what a node is now. The node must not be changed afterwards.
func (l *Holdings) SetNode(node *corev1.Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.nodes[node.Name]
	l.nodes[node.Name] = node
	if old == nil || !equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) || old.Spec.Unschedulable != node.Spec.Unschedulable ||
		!maps.Equal(old.Labels, node.Labels) || !equality.Semantic.DeepEqual(old.Status.Allocatable, node.Status.Allocatable) {
		l.unswept = true
		l.signal()
	}
}

// DeleteNode takes over that a node is gone.
func (l *Holdings) DeleteNode(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.nodes, name)
	l.touch()
}

// fault returns why pods that use the capacity of a Reservation cannot run on a node, "" if they can. lost is set if the
// capacity is not held there any more; otherwise, it is until it is held elsewhere: a node that is drained comes back.
func (r *Reservation) fault(name string, node *corev1.Node) (cause string, lost bool) {
	if node == nil {
		return fmt.Sprintf("node %q does not exist", name), true
	}
	if r.Group() != "" {
		return "", false // the scheduler has selected the node for its pod
	}
	spec := &r.Object.Spec
	for _, key := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		if value, ok := node.Labels[key]; !ok || value != spec.NodeSelector[key] {
			return fmt.Sprintf("spec.nodeSelector: node %q does not have the label %s=%s", name, key, spec.NodeSelector[key]), true
		}
	}
	if resource := exceeding(&r.Unit, new(AmountsOf(node.Status.Allocatable))); resource != "" {
		has, wanted := node.Status.Allocatable[resource], r.Requests[resource]
		return fmt.Sprintf("%s: node %q has %s allocatable, less than %s", field(resource), name, has.String(), wanted.String()), true
	}
	return r.repelled(name, node), false
}

// repelled returns which taint keeps pods that use the capacity off a node, "" for none.
func (r *Reservation) repelled(name string, node *corev1.Node) string {
	taints := node.Spec.Taints
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	if node.Spec.Unschedulable {
		taints = append(slices.Clip(taints), cordon)
	}
	taint, found := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), taints, r.Tolerations(), func(t *corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule
	}, true)
	switch {
	case !found:
		return ""
	case taint.Key == cordon.Key:
		return fmt.Sprintf("node %q is cordoned", name)
	}
	return fmt.Sprintf("spec.tolerations: node %q has the taint %s", name, taint.ToString())
}

// field is the field of a Reservation that has a resource.
func field(resource corev1.ResourceName) string {
	switch resource {
	case corev1.ResourceCPU, corev1.ResourceMemory:
		return "spec." + string(resource)
	case corev1.ResourceEphemeralStorage:
		return "spec.ephemeralStorage"
	}
	return fmt.Sprintf("spec.extendedResources[%s]", resource)
}

// sweep has what Reservations hold follow the pods and the nodes, of which changes may have been missed while no process had
// them in its cache. Guarded by mu.
func (l *Holdings) sweep() {
	if !l.unswept {
		return
	}
	for _, e := range l.entries {
		l.freeEnded(e)
		l.followNodes(e)
	}
	l.unswept = false
}

// followNodes releases what is free on nodes where it cannot be held any more. Guarded by mu.
func (l *Holdings) followNodes(e *entry) {
	e.pinned = ""
	if name := e.r.Object.Spec.NodeName; name != "" && e.r.Group() == "" {
		e.pinned, _ = e.r.fault(name, l.nodes[name])
	}
	before := len(e.holds)
	e.holds = slices.DeleteFunc(e.holds, func(h hold) bool {
		if !h.free() {
			return false
		}
		cause, lost := e.r.fault(h.NodeName, l.nodes[h.NodeName])
		if lost {
			e.lose(cause)
			if l.nodes[h.NodeName] != nil {
				l.count(e)
			}
		}
		return lost
	})
	l.mark(e)
	if len(e.holds) < before {
		l.touch()
	}
}

// mark notes where the pods of free capacity cannot run. Guarded by mu.
func (l *Holdings) mark(e *entry) {
	for i := range e.holds {
		h := &e.holds[i]
		if h.cause = ""; h.free() {
			h.cause, _ = e.r.fault(h.NodeName, l.nodes[h.NodeName])
		}
	}
}

// lose notes why capacity is not held any more.
func (e *entry) lose(cause string) {
	if !slices.Contains(e.lost, cause) && len(e.lost) < maxCauses {
		e.lost = append(e.lost, cause)
	}
	if len(e.released) < maxCauses {
		e.released = append(e.released, cause)
	}
}

// ready is the number of pods for which capacity is used, or is held where they can run.
func (e *entry) ready() int {
	n := 0
	for i := range e.holds {
		if e.holds[i].cause == "" {
			n++
		}
	}
	return n
}

// causes are why capacity is not held or cannot be used, "" if nothing is known.
func (e *entry) causes() string {
	causes := slices.Clone(e.lost)
	if e.pinned != "" {
		causes = append(causes, e.pinned)
	}
	for i := range e.holds {
		if e.holds[i].cause != "" {
			causes = append(causes, e.holds[i].cause)
		}
	}
	slices.Sort(causes)
	causes = slices.Compact(causes)
	if more := len(causes) - maxCauses; more > 0 {
		causes = append(causes[:maxCauses], fmt.Sprintf("%d more", more))
	}
	return strings.Join(causes, "; ")
}

// Verify releases capacity on nodes whose pods request so much that it is not there any more, the youngest first: a pod was
// resized in place, or another scheduler has placed it. Node returns a node of the scheduler's snapshot, nil if it is gone.
func (l *Holdings) Verify(node func(name string) fwk.NodeInfo, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refresh(now)
	exceeded := map[string]time.Time{}
	for name, entries := range l.holders() {
		info := node(name)
		if info == nil {
			continue
		}
		sum := &held{}
		for _, e := range entries {
			sum.pods++
			sum.total.add(&e.r.Unit)
		}
		if sum.exceeding(info) == "" {
			continue
		}
		since, known := l.exceeded[name]
		if !known {
			since = now
		}
		if exceeded[name] = since; now.Sub(since) >= exceededFor {
			l.release(name, entries, info)
		}
	}
	l.exceeded = exceeded
}

// holders are the Reservations that users made and that hold free capacity on a node, by node, one for each pod. Guarded by mu.
func (l *Holdings) holders() map[string][]*entry {
	on := map[string][]*entry{}
	for _, list := range l.active {
		for _, e := range list {
			if e.r.Group() != "" {
				continue // its pod is on the node already
			}
			for i := range e.holds {
				if h := &e.holds[i]; h.free() {
					on[h.NodeName] = append(on[h.NodeName], e)
				}
			}
		}
	}
	return on
}

// release releases what Reservations hold on a node, until the rest is there. Guarded by mu.
func (l *Holdings) release(name string, entries []*entry, node fwk.NodeInfo) {
	slices.SortFunc(entries, oldest)
	kept := &held{}
	for _, e := range entries {
		with := &held{pods: kept.pods + 1}
		with.total.add(&kept.total)
		with.total.add(&e.r.Unit)
		lacks := with.exceeding(node)
		if lacks == "" {
			kept = with
			continue
		}
		at := slices.IndexFunc(e.holds, func(h hold) bool { return h.free() && h.NodeName == name })
		e.holds = slices.Delete(e.holds, at, at+1)
		e.lose(fmt.Sprintf("node %q has no %s left that can be held: its pods request more than before", name, lacks))
		l.count(e)
		l.touch()
	}
}

// exceeding returns the first resource of which less is free on a node than what is held, "" for none.
func (n *held) exceeding(node fwk.NodeInfo) corev1.ResourceName {
	allocatable, requested := node.GetAllocatable(), node.GetRequested()
	if int64(len(node.GetPods()))+n.pods > int64(allocatable.GetAllowedPodNumber()) {
		return corev1.ResourcePods
	}
	free := &Amounts{
		MilliCPU: allocatable.GetMilliCPU() - requested.GetMilliCPU(), Memory: allocatable.GetMemory() - requested.GetMemory(),
		EphemeralStorage: allocatable.GetEphemeralStorage() - requested.GetEphemeralStorage(), Scalars: map[corev1.ResourceName]int64{},
	}
	for name := range n.total.Scalars {
		free.Scalars[name] = allocatable.GetScalarResources()[name] - requested.GetScalarResources()[name]
	}
	return exceeding(&n.total, free)
}

// exceeding returns the first resource of which an amount is above another one, "" for none.
func exceeding(a, b *Amounts) corev1.ResourceName {
	switch {
	case a.MilliCPU > max(0, b.MilliCPU):
		return corev1.ResourceCPU
	case a.Memory > max(0, b.Memory):
		return corev1.ResourceMemory
	case a.EphemeralStorage > max(0, b.EphemeralStorage):
		return corev1.ResourceEphemeralStorage
	}
	for _, name := range slices.SortedFunc(maps.Keys(a.Scalars), cmp.Compare[corev1.ResourceName]) {
		if a.Scalars[name] > max(0, b.Scalars[name]) {
			return name
		}
	}
	return ""
}

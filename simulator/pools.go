// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/controller"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/sim/optimum"
	"berth.dev/berth/internal/sim/scenario"
	"berth.dev/berth/internal/sim/spottrace"
	"berth.dev/berth/simulator/store"
)

// What cluster-autoscaler does by default.
const (
	// scanEvery is how often it looks for pods without capacity.
	scanEvery = 10 * time.Second
	// emptyFor is how long a node is empty before it is removed.
	emptyFor = 10 * time.Minute
	// backoffFor is how long a pool is left out after a launch that failed, the first time, and at most.
	backoffFor, backoffAtMost = 5 * time.Minute, 30 * time.Minute
	// failsAfter is how long the provider takes to refuse a node.
	failsAfter = optimum.FailsAfter
	// interrupted is the taint of a node whose interruption is announced.
	interrupted = "aws-node-termination-handler/spot-itn"
)

// pool is a node pool with its nodes.
type pool struct {
	*scenario.NodePool
	is    capacity.Type
	nodes map[string]*node
	// launches is how many nodes were requested that are not there yet, free what is left for pods on these and those that are there.
	launches int
	free     []room
	made     int
	// until is when a node may be launched again, after a launch that failed, and wait how long that was.
	until  time.Time
	wait   time.Duration
	random *rand.Rand
	hazard spottrace.Hazard
	// nodeSeconds is the time of all nodes that are there or gone, until counted.
	nodeSeconds float64
	counted     time.Time
}

// node is a node with its pods.
type node struct {
	name string
	of   *pool
	pods map[types.UID]*corev1.Pod
	// left is what the pods leave of the node.
	left room
	// leaving is set once its interruption is announced, empty counts the times at which it was empty.
	leaving bool
	empty   int
}

// addPools adds the nodes of the start. The first one takes no pods: without any node, the scheduler runs no plugin.
func (w *world) addPools() {
	w.store.Create(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "control-plane", Labels: map[string]string{corev1.LabelHostname: "control-plane"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}},
	})
	for i := range w.NodePools {
		spec := &w.NodePools[i]
		p := &pool{
			NodePool: spec, nodes: map[string]*node{}, counted: start, random: spottrace.Random(w.Seed, spec.Name),
		}
		p.is, _ = capacity.ParseType(spec.CapacityType) // the scenario is validated
		w.pools = append(w.pools, p)
		if a := spec.Availability; a != nil && a.MonthlyInterruptionPercent != nil {
			p.hazard = spottrace.Rate(*a.MonthlyInterruptionPercent)
		}
		for range spec.Nodes {
			if w.available(p) {
				w.addNode(p)
			}
		}
		w.follow(p, 0)
	}
}

// available reports whether the provider has another node.
func (w *world) available(p *pool) bool {
	n := int32(len(p.nodes)) //nolint:gosec // bounded by the scenario
	if p.Max != nil && n >= *p.Max {
		return false
	}
	a := p.Availability
	return a == nil || n < a.Available(w.clock.Since(start))
}

// follow has nodes interrupted when the trace of a pool has fewer than before, after a time.
func (w *world) follow(p *pool, after time.Duration) {
	a := p.Availability
	if a == nil || a.Loaded == nil {
		return
	}
	step, more := a.Loaded.Next(after)
	if !more {
		return
	}
	w.clock.At(start.Add(step.At), func() {
		staying := p.staying()
		if surplus := len(staying) - int(a.Available(step.At)); surplus > 0 {
			p.random.Shuffle(len(staying), func(i, j int) { staying[i], staying[j] = staying[j], staying[i] })
			for _, n := range staying[:surplus] {
				w.interrupt(n)
			}
		}
		w.refill(p)
		w.follow(p, step.At)
	})
}

// refill requests the nodes that a pool of a fixed size lacks, and that are available.
func (w *world) refill(p *pool) {
	if !p.Fixed {
		return
	}
	wanted := p.Nodes
	if a := p.Availability; a != nil {
		wanted = min(wanted, a.Available(w.clock.Since(start)))
	}
	for len(p.nodes)+p.launches < int(wanted) {
		w.launch(p)
	}
}

// staying returns the nodes without a notice, in an order that does not change.
func (p *pool) staying() (list []*node) {
	for _, n := range p.nodes {
		if !n.leaving {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(a, b *node) int { return cmp.Compare(a.name, b.name) })
	return list
}

func (w *world) addNode(p *pool) {
	w.count(p)
	p.made++
	n := &node{name: fmt.Sprintf("%s-%05d", p.Name, p.made), of: p, pods: map[types.UID]*corev1.Pod{}, left: p.room()}
	p.nodes[n.name], w.nodes[n.name], w.types[n.name] = n, n, p.is
	w.measure.nodes(p.is, 1)
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: map[string]string{
		corev1.LabelHostname: n.name, typeLabel: p.CapacityType, "karpenter.sh/nodepool": p.Name, corev1.LabelOSStable: "linux",
	}}}
	for key, value := range map[string]string{corev1.LabelTopologyZone: p.Zone, corev1.LabelInstanceTypeStable: p.InstanceType} {
		if value != "" {
			object.Labels[key] = value
		}
	}
	object.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: p.CPU, corev1.ResourceMemory: p.Memory,
		corev1.ResourcePods: *resource.NewQuantity(int64(p.Pods), resource.DecimalSI),
	}
	object.Status.Capacity = object.Status.Allocatable
	object.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: w.stamp()}}
	w.store.Create(object)
	if p.hazard > 0 {
		if until := p.hazard.Until(p.random); until < w.Duration.Duration {
			w.after(until, func() { w.interrupt(n) })
		}
	}
	w.emptied(n)
}

// interrupt announces the end of a spot node, and ends it once the notice is over.
func (w *world) interrupt(n *node) {
	object, found := store.Get[*corev1.Node](w.store, "", n.name)
	if !found || n.leaving {
		return
	}
	n.leaving = true
	w.measure.interruptions++
	object = object.DeepCopy()
	object.Spec.Taints = append(object.Spec.Taints, corev1.Taint{Key: interrupted, Effect: corev1.TaintEffectNoSchedule})
	w.store.Update(object)
	w.after(seconds(n.of.NoticeSeconds), func() {
		for _, pod := range n.pods {
			if controller.IsPodActive(pod) && w.serves(pod) != nil {
				w.measure.interruptedReplicas++
				w.lost(pod, n.of.Zone)
			}
		}
		w.removeNode(n)
	})
}

// removeNode removes a node, and the pods that are left on it.
func (w *world) removeNode(n *node) {
	object, found := store.Get[*corev1.Node](w.store, "", n.name)
	if !found {
		return
	}
	w.count(n.of)
	delete(n.of.nodes, n.name)
	delete(w.nodes, n.name)
	w.measure.nodes(n.of.is, -1)
	w.store.Delete(object)
	w.refill(n.of)
	var pods []*corev1.Pod
	for _, pod := range n.pods {
		pods = append(pods, pod)
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	for _, pod := range pods {
		if current, there := store.Get[*corev1.Pod](w.store, pod.Namespace, pod.Name); there && current.UID == pod.UID {
			w.store.Delete(current)
		}
	}
}

// put adds a pod of the node, or its new version.
func (n *node) put(pod *corev1.Pod) {
	if n.pods[pod.UID] == nil {
		n.left.add(requests(pod), -1)
	}
	n.pods[pod.UID] = pod
}

// drop removes a pod of the node.
func (n *node) drop(pod *corev1.Pod) {
	if n.pods[pod.UID] != nil {
		n.left.add(requests(pod), 1)
		delete(n.pods, pod.UID)
	}
}

// emptied has a node removed that stays empty, unless its pool has a fixed size.
func (w *world) emptied(n *node) {
	if len(n.pods) > 0 || n.of.Fixed {
		return
	}
	n.empty++
	since := n.empty
	w.after(emptyFor, func() {
		if len(n.pods) == 0 && n.empty == since && !n.leaving {
			w.removeNode(n)
		}
	})
}

// count adds the time of the nodes of a pool until now.
func (w *world) count(p *pool) {
	now := w.clock.Now()
	p.nodeSeconds += now.Sub(p.counted).Seconds() * float64(len(p.nodes))
	p.counted = now
}

// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
)

// Options configure a State. They must be those of the scheduler, or the two
// would disagree about the same pods.
type Options struct {
	Classifier *capacity.Classifier
	// SpreadSpotOver are the labels that name an interruption domain.
	SpreadSpotOver []string
	// Conventions are the names by which mixes and their groups are found.
	Conventions governing.Conventions
	// Mixes are the CapacityMixes; whoever fills the cluster state keeps them up to date.
	Mixes *governing.Registry
	// Defaults govern pods that nothing else does, by the name of their scheduler.
	Defaults map[string]*governing.Mix

	// Filtered returns what the filters of a scheduler read of a pod, apart from its labels, in an encoding that is the same for replicas
	// of one template; nil keeps nothing.
	Filtered func(*corev1.Pod) []byte
	// Offerings is what is kept of what nodes were sold as.
	Offerings Offerings

	// Changed is called, without locks held, when pods, owners or nodes changed in
	// a way that counts. It names the group that they belong to. An ID of "" means
	// whatever is in the namespace, a namespace of "" means everything.
	Changed func(governing.GroupKey)
	// FloorChanged is called, without locks held, when a pod with the label berth.dev/floor of this value changed or went.
	FloorChanged func(namespace, label string)
	// NodeLeft is called, without locks held, when a node began to depart or vanished.
	NodeLeft func(Departure)
}

// Departure is a node that began to depart or vanished.
type Departure struct {
	Name string
	UID  types.UID
	Type capacity.Type
	// Domain is its interruption domain.
	Domain string
	Cause  capacity.Cause
	// Notice is capacity.Notice at the beginning of the departure.
	Notice string
	// Empty is set where no pod ran on it but those that belong to a node.
	Empty bool
	// Staying is how many nodes of the type are there after it and do not depart.
	Staying int
}

// State holds the pods, nodes and workload controllers of a cluster in brief.
// Safe for concurrent use.
type State struct {
	Options
	resolver *governing.Resolver

	mu      sync.RWMutex
	scratch corev1.Pod // for one pod after the other, while mu is locked to write
	seats   []seat     // for one group after the other, likewise
	texts   texts
	sets    sets
	owners  owners
	sweepAt int
	// versions counts the groups that were composed.
	versions uint64
	// pods by name; byGroup by controller UID, by namespace for bare pods.
	pods       map[types.NamespacedName]*Pod
	namespaces map[string]*namespace
	// ungoverned are the pods that no mix may govern, by namespace, placeholders those of them that hold capacity, and released
	// those that have left their group and still run.
	ungoverned, placeholders, released map[string]map[*Pod]struct{}
	// floors are the pods with the label berth.dev/floor, by namespace and value.
	floors map[floorKey]map[*Pod]struct{}

	gated map[*Pod]struct{}
	nodes map[string]*nodeState
	// staying counts, by type, the known nodes that are not departing.
	staying map[capacity.Type]int
	// freedCount counts, by type, how often a node may have come to have more free capacity.
	freedCount map[capacity.Type]uint64
	objects    map[types.UID]*Owner
	// below are the controllers that another one controls, as a Deployment does its ReplicaSets.
	below map[types.UID][]types.UID
}

// nodeState is a node with what its pods request.
type nodeState struct {
	Node
	known       bool // the node object was seen, not only pods on it
	cpu, memory int64
	pods        []*Pod // in no order
}

// New returns an empty state.
func New(o Options) *State {
	st := &State{
		Options: o,
		texts:   texts{}, sweepAt: minSweep,
		pods: map[types.NamespacedName]*Pod{}, namespaces: map[string]*namespace{},
		ungoverned: map[string]map[*Pod]struct{}{}, placeholders: map[string]map[*Pod]struct{}{},
		released: map[string]map[*Pod]struct{}{}, floors: map[floorKey]map[*Pod]struct{}{},
		gated: map[*Pod]struct{}{}, nodes: map[string]*nodeState{}, staying: map[capacity.Type]int{},
		freedCount: map[capacity.Type]uint64{},
		objects:    map[types.UID]*Owner{}, below: map[types.UID][]types.UID{},
	}
	st.sets = newSets(st.texts)
	st.owners = newOwners(st.texts)
	st.resolver = &governing.Resolver{Conventions: o.Conventions, Mixes: o.Mixes, Controllers: controllersOf{st}}
	return st
}

func (st *State) changed(keys ...governing.GroupKey) {
	if st.Changed == nil {
		return
	}
	for _, k := range keys {
		st.Changed(k)
	}
}

// SetPod adds a pod or takes over what changed.
func (st *State) SetPod(o *corev1.Pod) {
	filtered := st.filtered(o)
	st.mu.Lock()
	old := st.pods[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}]
	p := st.podOf(o, old)
	p.Filtered = st.texts.of(filtered)
	if old != nil && old.equal(p) {
		st.mu.Unlock()
		return
	}
	key, before := st.keyOf(p), governing.GroupKey{}
	if old != nil {
		before = st.keyOf(old)
	}
	st.remove(old)
	st.add(p)
	st.freed(old, p)
	st.sweep()
	st.mu.Unlock()
	st.changed(key)
	if old != nil && before != key {
		st.changed(before)
	}
	if p.Leaves() {
		st.changed(formerGroup(p))
	}
	st.floorChanged(p)
}

// formerGroup is the key of the group that a released pod was in.
func formerGroup(p *Pod) governing.GroupKey {
	r, _ := p.ReleasedFrom()
	return governing.GroupKey{Namespace: p.Namespace, ID: r.Group}
}

// staleOf has the group composed again that a released pod was in; st.mu is held.
func (st *State) staleOf(p *Pod) {
	if ns := st.namespaces[p.Namespace]; ns != nil {
		r, _ := p.ReleasedFrom()
		ns.stale(r.ReplicaSet)
	}
}

// DeletePod forgets a pod. A UID that is not "" must be that of the pod.
func (st *State) DeletePod(name types.NamespacedName, uid types.UID) {
	st.mu.Lock()
	old := st.pods[name]
	if old == nil || uid != "" && old.UID != uid {
		st.mu.Unlock()
		return
	}
	key := st.keyOf(old)
	st.remove(old)
	st.freed(old, nil)
	st.mu.Unlock()
	st.changed(key)
	if old.Leaves() {
		st.changed(formerGroup(old))
	}
	st.floorChanged(old)
}

// ReplacePods makes the pods exactly those: the first list, or one after a lost watch.
func (st *State) ReplacePods(all []*corev1.Pod) {
	names := make(map[types.NamespacedName]struct{}, len(all))
	for _, o := range all {
		names[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = struct{}{}
		st.SetPod(o)
	}
	st.RetainPods(func(name types.NamespacedName) bool {
		_, there := names[name]
		return there
	})
}

// RetainPods forgets the pods that are not to be kept.
func (st *State) RetainPods(keep func(types.NamespacedName) bool) {
	st.mu.RLock()
	var gone []types.NamespacedName
	for name := range st.pods {
		if !keep(name) {
			gone = append(gone, name)
		}
	}
	st.mu.RUnlock()
	for _, name := range gone {
		st.DeletePod(name, "")
	}
}

// add and remove keep the indexes; st.mu is held.
func (st *State) add(p *Pod) {
	st.pods[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = p
	st.hold(p)
	st.use(p, 1)
	if p.Gated {
		st.gated[p] = struct{}{}
	}
	if p.Into(&st.scratch); !governing.Governable(&st.scratch) {
		into(st.ungoverned, p)
		if p.holdsRoom() {
			into(st.placeholders, p)
		}
		if p.Leaves() && p.Live() {
			into(st.released, p)
			st.staleOf(p)
		}
		return
	}
	ns := st.namespaces[p.Namespace]
	if ns == nil {
		ns = newNamespace()
		st.namespaces[p.Namespace] = ns
	}
	ns.add(p)
}

func (st *State) remove(p *Pod) {
	if p == nil {
		return
	}
	delete(st.pods, types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
	st.use(p, -1)
	delete(st.gated, p)
	outOf(st.ungoverned, p)
	outOf(st.placeholders, p)
	st.drop(p)
	if _, released := st.released[p.Namespace][p]; released {
		outOf(st.released, p)
		st.staleOf(p)
	}
	if ns := st.namespaces[p.Namespace]; ns != nil && ns.remove(p) {
		delete(st.namespaces, p.Namespace)
	}
}

func into(byNamespace map[string]map[*Pod]struct{}, p *Pod) {
	if byNamespace[p.Namespace] == nil {
		byNamespace[p.Namespace] = map[*Pod]struct{}{}
	}
	byNamespace[p.Namespace][p] = struct{}{}
}

func outOf(byNamespace map[string]map[*Pod]struct{}, p *Pod) {
	if all := byNamespace[p.Namespace]; all != nil {
		if delete(all, p); len(all) == 0 {
			delete(byNamespace, p.Namespace)
		}
	}
}

// use counts what a pod takes of its node.
func (st *State) use(p *Pod, sign int64) {
	if !p.takesRoom() {
		return
	}
	n := st.nodes[p.Node]
	if n == nil {
		n = &nodeState{Node: Node{Name: p.Node}}
		st.nodes[p.Node] = n
	}
	n.cpu += sign * p.CPU
	n.memory += sign * p.Memory
	if sign > 0 {
		n.pods = append(n.pods, p)
	} else {
		n.pods = without(n.pods, p)
	}
	if !n.known && len(n.pods) == 0 {
		delete(st.nodes, p.Node)
	}
}

// freed notes that a node has more free capacity once a pod has changed, or gone.
func (st *State) freed(before, after *Pod) {
	if before == nil || !before.takesRoom() {
		return
	}
	if after != nil && after.takesRoom() && after.Node == before.Node && after.CPU >= before.CPU && after.Memory >= before.Memory {
		return
	}
	st.freedCount[st.typeOf(before.Node)]++
}

// CapacityVersion changes whenever MayFit may have become true for a type.
func (st *State) CapacityVersion(t capacity.Type) uint64 {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.freedCount[t]
}

// SetNode adds a node or takes over what changed.
func (st *State) SetNode(o *corev1.Node) {
	st.mu.Lock()
	n := st.nodes[o.Name]
	if n == nil {
		n = &nodeState{}
		st.nodes[st.texts.one(o.Name)] = n
	}
	before, known := n.Node, n.known
	st.stay(n, -1)
	n.Node, n.known = st.nodeOf(o, before.Offered), true
	if before.Departing != "" && n.Departing != "" {
		n.Cause, n.Notice = before.Cause, before.Notice // what began the departure
	}
	same := known && before.same(n.Node)
	left := known && before.Departing == "" && n.Departing != ""
	st.stay(n, 1)
	departure := st.departure(n)
	st.moved(n, before)
	if !same {
		st.freedCount[n.Type]++
	}
	st.mu.Unlock()
	if left && st.NodeLeft != nil {
		st.NodeLeft(departure)
	}
	if !same {
		st.changed(governing.GroupKey{})
	}
}

// stay counts a node if it is known and does not depart; st.mu is held.
func (st *State) stay(n *nodeState, sign int) {
	if n.known && n.Departing == "" {
		st.staying[n.Type] += sign
	}
}

// departure describes a node that no longer stays; st.mu is held.
func (st *State) departure(n *nodeState) Departure {
	return Departure{
		Name: n.Name, UID: n.UID, Type: n.Type, Domain: n.Domain, Cause: n.Cause, Notice: n.Notice, Staying: st.staying[n.Type],
		Empty: !slices.ContainsFunc(n.pods, func(p *Pod) bool { return p.Live() && !p.ofNode() }),
	}
}

// DeleteNode forgets a node. Pods that are still bound to it are on a node of unknown type.
func (st *State) DeleteNode(name string) {
	st.mu.Lock()
	n := st.nodes[name]
	if n == nil || !n.known {
		st.mu.Unlock()
		return
	}
	before := n.Node
	st.stay(n, -1)
	left, departure := n.Departing == "", st.departure(n)
	n.Node, n.known = Node{Name: n.Name}, false
	st.moved(n, before)
	if len(n.pods) == 0 {
		delete(st.nodes, name)
	}
	st.mu.Unlock()
	if left && st.NodeLeft != nil {
		st.NodeLeft(departure)
	}
	st.changed(governing.GroupKey{})
}

// ReplaceNodes makes the nodes exactly those.
func (st *State) ReplaceNodes(all []*corev1.Node) {
	names := make(map[string]struct{}, len(all))
	for _, o := range all {
		names[o.Name] = struct{}{}
		st.SetNode(o)
	}
	for _, n := range st.Nodes() {
		if _, there := names[n.Name]; !there {
			st.DeleteNode(n.Name)
		}
	}
}

// Count returns how many nodes of a type there are that are not departing.
func (st *State) Count(t capacity.Type) (nodes int) {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.staying[t]
}

// MayFit reports whether some node of a type that takes pods has as much CPU,
// memory and pod slots left as the pod requests. False is certain; true is for
// the scheduler's filters to confirm.
func (st *State) MayFit(t capacity.Type, p *Pod) bool {
	st.mu.RLock()
	defer st.mu.RUnlock()
	for _, n := range st.nodes {
		if n.known && n.Type == t && n.Accepting && int64(len(n.pods)) < n.Pods && fits(p.CPU, n.CPU-n.cpu) &&
			fits(p.Memory, n.Memory-n.memory) {
			return true
		}
	}
	return false
}

// fits is the scheduler's rule: a pod that requests nothing fits where less than nothing is left.
func fits(ask, left int64) bool { return ask <= 0 || ask <= left }

// Pod returns a pod by name, nil if there is none.
func (st *State) Pod(namespace, name string) *Pod {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.pods[types.NamespacedName{Namespace: namespace, Name: name}]
}

// Scheduled returns the pods that filters count, in no order.
func (st *State) Scheduled() []*Pod {
	st.mu.RLock()
	defer st.mu.RUnlock()
	all := make([]*Pod, 0, len(st.pods))
	for _, p := range st.pods {
		if p.Filtered != "" {
			all = append(all, p)
		}
	}
	return all
}

// Gated returns the pods of all namespaces that have the scheduling gate, the
// oldest first, those that belong to a node included.
func (st *State) Gated() []*Pod {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return slices.SortedFunc(maps.Keys(st.gated), older)
}

// Placeholders returns the pods that hold capacity for replicas of a namespace that
// are to move, "" for all namespaces; oldest first.
func (st *State) Placeholders(namespace string) []*Pod { return st.listed(st.placeholders, namespace) }

// Released returns the live pods of a namespace that were released from their groups, "" for all namespaces; oldest first.
func (st *State) Released(namespace string) []*Pod { return st.listed(st.released, namespace) }

func (st *State) listed(byNamespace map[string]map[*Pod]struct{}, namespace string) (list []*Pod) {
	st.mu.RLock()
	defer st.mu.RUnlock()
	if namespace != "" {
		list = slices.AppendSeq(list, maps.Keys(byNamespace[namespace]))
	} else {
		for _, pods := range byNamespace {
			list = slices.AppendSeq(list, maps.Keys(pods))
		}
	}
	slices.SortFunc(list, older)
	return list
}

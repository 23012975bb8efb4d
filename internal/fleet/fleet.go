// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/capacity"
	"berth.dev/berth/internal/policy"
)

// Options configure a Fleet. They must be those of the scheduler, or the two
// would disagree about the same pods.
type Options struct {
	Classifier *capacity.Classifier
	// SpreadSpotOver are the labels that name an interruption domain.
	SpreadSpotOver []string
	// Prefixes are the annotation families to read for mixes.
	Prefixes []string
	// Mixes are the CapacityMixes; whoever fills the fleet keeps them up to date.
	Mixes *policy.Store
	// Defaults govern pods that nothing else does, by the name of their scheduler.
	Defaults map[string]*policy.Policy

	// Changed is called, without locks held, when pods, owners or nodes of a
	// namespace changed in a way that counts; "" means every namespace.
	Changed func(namespace string)
	// NodeLeft is called, without locks held, when a node of a type began to
	// depart or vanished.
	NodeLeft func(name string, t capacity.Type)
}

// Fleet holds the pods, nodes and workload controllers of a cluster in brief.
// Safe for concurrent use.
type Fleet struct {
	Options
	resolver *policy.Resolver

	mu      sync.RWMutex
	texts   texts
	sets    sets
	owners  owners
	sweepAt int
	// pods by name; byGroup by controller UID, by namespace for bare pods.
	pods       map[types.NamespacedName]*Pod
	namespaces map[string]*namespace
	// ungoverned are the pods that no mix may govern, by namespace.
	ungoverned map[string]map[*Pod]struct{}
	gated      map[*Pod]struct{}
	nodes      map[string]*nodeState
	objects    map[types.UID]metav1.Object
}

// namespace indexes the pods of one namespace that a mix may govern.
type namespace struct {
	owned map[types.UID]map[*Pod]struct{}
	bare  map[*Pod]struct{}
}

// nodeState is a node with what its pods ask for.
type nodeState struct {
	Node
	known             bool // the node object was seen, not only pods on it
	cpu, memory, pods int64
}

// New returns an empty fleet.
func New(o Options) *Fleet {
	f := &Fleet{
		Options: o,
		texts:   texts{}, sweepAt: minSweep,
		pods: map[types.NamespacedName]*Pod{}, namespaces: map[string]*namespace{}, ungoverned: map[string]map[*Pod]struct{}{},
		gated: map[*Pod]struct{}{}, nodes: map[string]*nodeState{}, objects: map[types.UID]metav1.Object{},
	}
	f.sets = sets{texts: f.texts, byKey: map[string]map[string]string{}}
	f.owners = owners{texts: f.texts, byUID: map[types.UID]*metav1.OwnerReference{}}
	f.resolver = &policy.Resolver{Prefixes: o.Prefixes, Mixes: o.Mixes, Controllers: controllersOf{f}}
	return f
}

func (f *Fleet) changed(namespaces ...string) {
	if f.Changed == nil {
		return
	}
	for _, n := range namespaces {
		f.Changed(n)
	}
}

// SetPod adds a pod or takes over what changed.
func (f *Fleet) SetPod(o *corev1.Pod) {
	f.mu.Lock()
	p := f.podOf(o)
	old := f.pods[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}]
	if old != nil && old.equal(p) {
		f.mu.Unlock()
		return
	}
	f.remove(old)
	f.add(p)
	f.sweep()
	f.mu.Unlock()
	f.changed(p.Namespace)
}

// DeletePod forgets a pod. A UID that is not "" must be that of the pod.
func (f *Fleet) DeletePod(name types.NamespacedName, uid types.UID) {
	f.mu.Lock()
	old := f.pods[name]
	if old == nil || uid != "" && old.UID != uid {
		f.mu.Unlock()
		return
	}
	f.remove(old)
	f.mu.Unlock()
	f.changed(name.Namespace)
}

// ReplacePods makes the pods exactly those: the first list, or one after a lost watch.
func (f *Fleet) ReplacePods(all []*corev1.Pod) {
	names := make(map[types.NamespacedName]struct{}, len(all))
	for _, o := range all {
		names[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = struct{}{}
		f.SetPod(o)
	}
	f.RetainPods(func(name types.NamespacedName) bool {
		_, there := names[name]
		return there
	})
}

// RetainPods forgets the pods that are not to be kept.
func (f *Fleet) RetainPods(keep func(types.NamespacedName) bool) {
	f.mu.RLock()
	var gone []types.NamespacedName
	for name := range f.pods {
		if !keep(name) {
			gone = append(gone, name)
		}
	}
	f.mu.RUnlock()
	for _, name := range gone {
		f.DeletePod(name, "")
	}
}

// add and remove keep the indexes; f.mu is held.
func (f *Fleet) add(p *Pod) {
	f.pods[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = p
	f.use(p, 1)
	if p.Gated {
		f.gated[p] = struct{}{}
	}
	if !policy.Governable(p.Object()) {
		if f.ungoverned[p.Namespace] == nil {
			f.ungoverned[p.Namespace] = map[*Pod]struct{}{}
		}
		f.ungoverned[p.Namespace][p] = struct{}{}
		return
	}
	ns := f.namespaces[p.Namespace]
	if ns == nil {
		ns = &namespace{owned: map[types.UID]map[*Pod]struct{}{}, bare: map[*Pod]struct{}{}}
		f.namespaces[p.Namespace] = ns
	}
	if p.Owner == nil {
		ns.bare[p] = struct{}{}
		return
	}
	members := ns.owned[p.Owner.UID]
	if members == nil {
		members = map[*Pod]struct{}{}
		ns.owned[p.Owner.UID] = members
	}
	members[p] = struct{}{}
}

func (f *Fleet) remove(p *Pod) {
	if p == nil {
		return
	}
	delete(f.pods, types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
	f.use(p, -1)
	delete(f.gated, p)
	if all := f.ungoverned[p.Namespace]; all != nil {
		if delete(all, p); len(all) == 0 {
			delete(f.ungoverned, p.Namespace)
		}
	}
	ns := f.namespaces[p.Namespace]
	if ns == nil { // it has only pods that nothing governs
		return
	}
	delete(ns.bare, p)
	if p.Owner != nil {
		members := ns.owned[p.Owner.UID]
		if delete(members, p); len(members) == 0 {
			delete(ns.owned, p.Owner.UID)
		}
	}
	if len(ns.bare) == 0 && len(ns.owned) == 0 {
		delete(f.namespaces, p.Namespace)
	}
}

// use counts what a pod takes of its node.
func (f *Fleet) use(p *Pod, sign int64) {
	if p.Node == "" || p.Finished {
		return
	}
	n := f.nodes[p.Node]
	if n == nil {
		n = &nodeState{Node: Node{Name: p.Node}}
		f.nodes[p.Node] = n
	}
	n.cpu += sign * p.CPU
	n.memory += sign * p.Memory
	n.pods += sign
	if !n.known && n.pods == 0 {
		delete(f.nodes, p.Node)
	}
}

// SetNode adds a node or takes over what changed.
func (f *Fleet) SetNode(o *corev1.Node) {
	f.mu.Lock()
	n := f.nodes[o.Name]
	if n == nil {
		n = &nodeState{}
		f.nodes[f.texts.one(o.Name)] = n
	}
	before, known := n.Node, n.known
	n.Node, n.known = f.nodeOf(o), true
	same := known && before == n.Node
	left := known && before.Departing == "" && n.Departing != ""
	t := n.Type
	f.mu.Unlock()
	if left && f.NodeLeft != nil {
		f.NodeLeft(o.Name, t)
	}
	if !same {
		f.changed("")
	}
}

// DeleteNode forgets a node. Pods that are still bound to it are on a node of unknown type.
func (f *Fleet) DeleteNode(name string) {
	f.mu.Lock()
	n := f.nodes[name]
	if n == nil || !n.known {
		f.mu.Unlock()
		return
	}
	left, t := n.Departing == "", n.Type
	n.Node, n.known = Node{Name: n.Name}, false
	if n.pods == 0 {
		delete(f.nodes, name)
	}
	f.mu.Unlock()
	if left && f.NodeLeft != nil {
		f.NodeLeft(name, t)
	}
	f.changed("")
}

// ReplaceNodes makes the nodes exactly those.
func (f *Fleet) ReplaceNodes(all []*corev1.Node) {
	names := make(map[string]struct{}, len(all))
	for _, o := range all {
		names[o.Name] = struct{}{}
		f.SetNode(o)
	}
	for _, n := range f.Nodes() {
		if _, there := names[n.Name]; !there {
			f.DeleteNode(n.Name)
		}
	}
}

// Node returns a node; of one that is not known only the name is set.
func (f *Fleet) Node(name string) Node {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if n := f.nodes[name]; n != nil {
		return n.Node
	}
	return Node{Name: name}
}

// Nodes returns the known nodes, in no order.
func (f *Fleet) Nodes() []Node {
	f.mu.RLock()
	defer f.mu.RUnlock()
	all := make([]Node, 0, len(f.nodes))
	for _, n := range f.nodes {
		if n.known {
			all = append(all, n.Node)
		}
	}
	return all
}

// Count returns how many nodes of a type there are that are not departing.
func (f *Fleet) Count(t capacity.Type) (nodes int) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, n := range f.nodes {
		if n.known && n.Type == t && n.Departing == "" {
			nodes++
		}
	}
	return nodes
}

// MayFit reports whether some node of a type that takes pods has as much CPU,
// memory and pod slots left as the pod asks for. False is certain; true is for
// the scheduler's filters to confirm.
func (f *Fleet) MayFit(t capacity.Type, p *Pod) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, n := range f.nodes {
		if n.known && n.Type == t && n.Accepting && n.pods < n.Pods && fits(p.CPU, n.CPU-n.cpu) && fits(p.Memory, n.Memory-n.memory) {
			return true
		}
	}
	return false
}

// fits is the scheduler's rule: who asks for nothing fits where less than nothing is left.
func fits(ask, left int64) bool { return ask <= 0 || ask <= left }

// Pod returns a pod by name, nil if there is none.
func (f *Fleet) Pod(namespace, name string) *Pod {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.pods[types.NamespacedName{Namespace: namespace, Name: name}]
}

// Gated returns the pods of all namespaces that have the scheduling gate, the
// oldest first, those that belong to a node included.
func (f *Fleet) Gated() []*Pod {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.SortedFunc(maps.Keys(f.gated), older)
}

// Placeholders returns the pods that hold room for replicas of a namespace that
// are to move, "" for all namespaces; oldest first.
func (f *Fleet) Placeholders(namespace string) (list []*Pod) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for n, pods := range f.ungoverned {
		if namespace != "" && n != namespace {
			continue
		}
		for p := range pods {
			if _, holds := p.Labels[v1alpha1.PlaceholderLabel]; holds {
				list = append(list, p)
			}
		}
	}
	slices.SortFunc(list, older)
	return list
}

// Pods returns the pods of a namespace, in no order, without those that belong
// to a node.
func (f *Fleet) Pods(namespace string) []*Pod {
	f.mu.RLock()
	defer f.mu.RUnlock()
	ns := f.namespaces[namespace]
	if ns == nil {
		return nil
	}
	var all []*Pod
	for p := range ns.bare {
		all = append(all, p)
	}
	for _, members := range ns.owned {
		for p := range members {
			all = append(all, p)
		}
	}
	return all
}

// AllPods returns the pods of a namespace, those that belong to a node included,
// in no order.
func (f *Fleet) AllPods(namespace string) []*Pod {
	all := f.Pods(namespace)
	f.mu.RLock()
	defer f.mu.RUnlock()
	for p := range f.ungoverned[namespace] {
		all = append(all, p)
	}
	return all
}

// AllNamespaces returns the namespaces that have pods of any kind, in no order.
func (f *Fleet) AllNamespaces() []string {
	all := f.Namespaces()
	f.mu.RLock()
	defer f.mu.RUnlock()
	for name := range f.ungoverned {
		if f.namespaces[name] == nil {
			all = append(all, name)
		}
	}
	return all
}

// Namespaces returns the namespaces that have pods, in no order.
func (f *Fleet) Namespaces() []string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	all := make([]string, 0, len(f.namespaces))
	for name := range f.namespaces {
		all = append(all, name)
	}
	return all
}

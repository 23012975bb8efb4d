// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/governing"
)

// What a group is follows from its pods, the nodes that they are on, their
// controllers and their owners, and the mixes of the namespace. Once
// composed it is kept until one of these changes: whoever changes one reports it by
// stale, staleBelow or moved, and changed mixes are noticed by their version.

// namespace has the pods of one namespace that a mix may govern, and the groups
// that they make.
type namespace struct {
	// owned are the pods by controller, "" for those without one, and changed those that have to be divided into groups again.
	owned   map[types.UID]*members
	changed map[*members]struct{}
	// groups are what the members make, by the ID of their key.
	groups map[string]*composed
	// sorted are all groups, nil if they have to be put in order.
	sorted []*Group
	// mixes is the version that the groups were composed with.
	mixes uint64
}

// members are the pods of one controller, in no order, and the parts that they are of groups: one of one group, in general. Pods that
// have to be divided again have the parts of before, without pods.
type members struct {
	owner types.UID
	pods  []*Pod
	parts []*part
}

// composed is a group, or nothing if no mix governs its pods. It is composed if known is set.
type composed struct {
	parts []*part
	group *Group
	known bool
}

func newNamespace() *namespace {
	return &namespace{owned: map[types.UID]*members{}, changed: map[*members]struct{}{}, groups: map[string]*composed{}}
}

func controllerOf(p *Pod) types.UID {
	if p.Owner == nil {
		return ""
	}
	return p.Owner.UID
}

func (n *namespace) add(p *Pod) {
	uid := controllerOf(p)
	m := n.owned[uid]
	if m == nil {
		m = &members{owner: uid}
		n.owned[uid] = m
	}
	m.pods = append(m.pods, p)
	n.stale(uid)
}

// remove reports whether the namespace has no pods any more.
func (n *namespace) remove(p *Pod) (empty bool) {
	uid := controllerOf(p)
	if m := n.owned[uid]; m != nil {
		m.pods = without(m.pods, p)
		if n.stale(uid); len(m.pods) == 0 {
			delete(n.owned, uid)
			delete(n.changed, m)
		}
	}
	return len(n.owned) == 0
}

// stale has the pods of a controller divided into groups again, "" for those without one, and these groups composed again.
func (n *namespace) stale(uid types.UID) {
	n.sorted = nil
	m := n.owned[uid]
	if m == nil {
		return
	}
	if _, already := n.changed[m]; already {
		return
	}
	for _, p := range m.parts {
		c := n.groups[p.id]
		if c.group, c.known, c.parts = nil, false, without(c.parts, p); len(c.parts) == 0 {
			delete(n.groups, p.id)
		}
		p.live, p.mixes = nil, nil
	}
	n.changed[m] = struct{}{}
}

// inOthers reports whether pods of a controller were in other groups than one when they were divided last.
func (n *namespace) inOthers(uid types.UID, id string) bool {
	m := n.owned[uid]
	return m != nil && slices.ContainsFunc(m.parts, func(p *part) bool { return p.id != id })
}

// allStale is stale for all pods. A group may have parts of as many controllers as a tenant likes.
func (n *namespace) allStale() {
	n.sorted = nil
	clear(n.groups)
	for _, m := range n.owned {
		n.changed[m] = struct{}{}
	}
}

// moved has the groups of a node's pods composed again if their state differs from
// the one before; st.mu is held.
func (st *State) moved(n *nodeState, before Node) {
	if n.Type == before.Type && n.Departing == before.Departing && n.Reclaimed == before.Reclaimed {
		return
	}
	for _, p := range n.pods {
		if ns := st.namespaces[p.Namespace]; ns != nil {
			ns.stale(controllerOf(p))
		}
	}
}

// Groups returns the groups of a namespace that a mix governs, sorted by
// workload and revision.
func (st *State) Groups(namespace string) []Group {
	var groups []Group
	for _, g := range st.Current(namespace) {
		groups = append(groups, *g)
	}
	return groups
}

// Current is Groups without copies: the groups are shared and must not be
// changed. A group that is the same as before has the same version.
func (st *State) Current(namespace string) []*Group {
	st.mu.RLock()
	ns := st.namespaces[namespace]
	if ns == nil {
		st.mu.RUnlock()
		return nil
	}
	if sorted := ns.sorted; sorted != nil && ns.mixes == st.Mixes.Version(namespace) {
		st.mu.RUnlock()
		return sorted
	}
	st.mu.RUnlock()
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.compose(namespace)
}

// Group returns a group as Current does, nil if there is none.
func (st *State) Group(key governing.GroupKey) *Group {
	st.mu.Lock()
	defer st.mu.Unlock()
	ns := st.fresh(key.Namespace)
	if ns == nil {
		return nil
	}
	if c := ns.groups[key.ID]; c != nil {
		return st.composedOf(key, c)
	}
	return nil
}

// compose composes what is not known of a namespace; st.mu is held.
func (st *State) compose(namespace string) []*Group {
	ns := st.fresh(namespace)
	if ns == nil {
		return nil
	}
	if ns.sorted == nil {
		ns.sorted = make([]*Group, 0, len(ns.groups))
		for id, c := range ns.groups {
			if g := st.composedOf(governing.GroupKey{Namespace: namespace, ID: id}, c); g != nil {
				ns.sorted = append(ns.sorted, g)
			}
		}
		slices.SortFunc(ns.sorted, ByWorkload)
	}
	return ns.sorted
}

// fresh returns a namespace whose pods are divided into groups by the mixes of now.
func (st *State) fresh(namespace string) *namespace {
	ns := st.namespaces[namespace]
	if ns == nil {
		return nil
	}
	if v := st.Mixes.Version(namespace); v != ns.mixes {
		ns.mixes = v
		ns.allStale()
	}
	for m := range ns.changed {
		st.divide(ns, m)
	}
	return ns
}

// divide divides the pods of a controller into the parts that they are of groups.
func (st *State) divide(ns *namespace, m *members) {
	delete(ns.changed, m)
	m.parts = st.partsOf(m)
	for _, p := range m.parts {
		c := ns.groups[p.id]
		if c == nil {
			c = &composed{}
			ns.groups[p.id] = c
		}
		c.parts = append(c.parts, p)
		c.group, c.known = nil, false
	}
}

func (st *State) composedOf(key governing.GroupKey, c *composed) *Group {
	if !c.known {
		if g, ok := st.group(key, c.parts); ok {
			c.group = &g
		}
		c.known = true
	}
	return c.group
}

// ByWorkload is the order of groups.
func ByWorkload(a, b *Group) int {
	return cmp.Or(cmp.Compare(a.Workload.Kind, b.Workload.Kind), cmp.Compare(a.Workload.Name, b.Workload.Name),
		cmp.Compare(a.Workload.Revision, b.Workload.Revision), cmp.Compare(a.Key.ID, b.Key.ID))
}

// without removes an element from a list in no order.
func without[T comparable](list []T, gone T) []T {
	i := slices.Index(list, gone)
	if i < 0 {
		return list
	}
	last := len(list) - 1
	var zero T
	list[i], list[last] = list[last], zero
	return list[:last]
}

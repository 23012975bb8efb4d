// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/governing"
)

// What a group is follows from its pods, the nodes that they are on, their
// controller and its owner, and the mixes of the namespace. Once
// composed it is kept until one of these changes: whoever changes one reports it by
// stale, staleBelow or moved, and changed mixes are noticed by their version.

// namespace has the pods of one namespace that a mix may govern, and the groups
// that they make.
type namespace struct {
	owned map[types.UID]*members
	bare  map[*Pod]struct{}
	// bareGroups are those of the bare pods, nil if they have to be composed.
	bareGroups []*Group
	bareKnown  bool
	// sorted are all groups, nil if they have to be put in order.
	sorted []*Group
	// mixes is the version that the groups were composed with.
	mixes uint64
}

// members are the pods of one controller, in no order.
type members struct {
	pods []*Pod
	// group is what they make, nil for nothing; known is set once it is composed.
	group *Group
	known bool
}

func newNamespace() *namespace {
	return &namespace{owned: map[types.UID]*members{}, bare: map[*Pod]struct{}{}}
}

func (n *namespace) add(p *Pod) {
	if p.Owner == nil {
		n.bare[p] = struct{}{}
		n.stale("")
		return
	}
	m := n.owned[p.Owner.UID]
	if m == nil {
		m = &members{}
		n.owned[p.Owner.UID] = m
	}
	m.pods = append(m.pods, p)
	n.stale(p.Owner.UID)
}

// remove reports whether the namespace has no pods any more.
func (n *namespace) remove(p *Pod) (empty bool) {
	if p.Owner == nil {
		delete(n.bare, p)
		n.stale("")
	} else if m := n.owned[p.Owner.UID]; m != nil {
		m.pods = without(m.pods, p)
		n.stale(p.Owner.UID)
		if len(m.pods) == 0 {
			delete(n.owned, p.Owner.UID)
		}
	}
	return len(n.bare) == 0 && len(n.owned) == 0
}

// stale has the group of a controller composed again, "" for those of bare pods.
func (n *namespace) stale(uid types.UID) {
	n.sorted = nil
	if uid == "" {
		n.bareGroups, n.bareKnown = nil, false
	} else if m := n.owned[uid]; m != nil {
		m.group, m.known = nil, false
	}
}

// staleBelow has the groups that depend on a controller composed again: its own
// and those of what it controls. It returns their keys; st.mu is held.
func (st *State) staleBelow(o *Owner) []governing.GroupKey {
	name := o.Namespace
	keys := make([]governing.GroupKey, 0, 2)
	for _, uid := range append([]types.UID{o.UID}, st.below[o.UID]...) {
		keys = append(keys, governing.GroupKey{Namespace: name, ID: string(uid)})
		if ns := st.namespaces[name]; ns != nil {
			ns.stale(uid)
		}
	}
	return keys
}

// moved has the groups of a node's pods composed again if their state differs from
// the one before; st.mu is held.
func (st *State) moved(n *nodeState, before Node) {
	if n.Type == before.Type && n.Departing == before.Departing {
		return
	}
	for _, p := range n.pods {
		ns := st.namespaces[p.Namespace]
		switch {
		case ns == nil:
		case p.Owner == nil:
			ns.stale("")
		default:
			ns.stale(p.Owner.UID)
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
	if m := ns.owned[types.UID(key.ID)]; m != nil {
		return st.groupOf(key.Namespace, types.UID(key.ID), m)
	}
	for _, g := range st.bareOf(key.Namespace, ns) {
		if g.Key == key {
			return g
		}
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
		ns.sorted = make([]*Group, 0, len(ns.owned))
		for uid, m := range ns.owned {
			if g := st.groupOf(namespace, uid, m); g != nil {
				ns.sorted = append(ns.sorted, g)
			}
		}
		ns.sorted = append(ns.sorted, st.bareOf(namespace, ns)...)
		slices.SortFunc(ns.sorted, ByWorkload)
	}
	return ns.sorted
}

// fresh returns a namespace without what was composed with other mixes.
func (st *State) fresh(namespace string) *namespace {
	ns := st.namespaces[namespace]
	if ns == nil {
		return nil
	}
	if v := st.Mixes.Version(namespace); v != ns.mixes {
		ns.mixes = v
		ns.stale("")
		for uid := range ns.owned {
			ns.stale(uid)
		}
	}
	return ns
}

func (st *State) groupOf(namespace string, uid types.UID, m *members) *Group {
	if !m.known {
		if g, ok := st.group(namespace, uid, m.pods); ok {
			m.group = &g
		}
		m.known = true
	}
	return m.group
}

func (st *State) bareOf(namespace string, ns *namespace) []*Group {
	if !ns.bareKnown {
		for _, g := range st.bareGroups(namespace, ns.bare) {
			ns.bareGroups = append(ns.bareGroups, &g)
		}
		ns.bareKnown = true
	}
	return ns.bareGroups
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

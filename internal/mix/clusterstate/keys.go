// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
)

// Whoever changes something reports the groups that may be others by it, before and after.

// KeyOf names the group of a pod; an ID of "" is any of the namespace.
func (st *State) KeyOf(p *Pod) governing.GroupKey {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.keyOf(p)
}

// keyOf names what changes with a pod: its group, or where a look at all others were needed to
// find it, the namespace; st.mu is locked to write.
func (st *State) keyOf(p *Pod) governing.GroupKey {
	key := governing.GroupKey{Namespace: p.Namespace}
	if p.Owner == nil || p.holdsRoom() {
		return key
	}
	key.ID = string(p.Owner.UID)
	p.Into(&st.scratch)
	if len(key.ID) > uidLength || st.resolver.GroupedByMix(&st.scratch) || !st.Mixes.Plain(p.Namespace) || st.namesGroup(p) {
		_, key.ID = st.partOf(p)
	}
	if ns := st.namespaces[p.Namespace]; ns != nil && ns.inOthers(p.Owner.UID, key.ID) {
		key.ID = "" // how many pods of a controller are in one group determines how many are to be in another
	}
	return key
}

// uidLength is that of the UIDs of API servers. Another text in an owner reference may be truncated in the key of a group.
const uidLength = 36

// namesGroup reports whether an annotation determines the group of a pod.
func (st *State) namesGroup(p *Pod) bool {
	_, named := p.Annotations[v1alpha1.GroupAnnotation]
	if owner := st.object(p.Namespace, p.Owner.UID); owner != nil && !named {
		_, named = owner.Annotations[v1alpha1.GroupAnnotation]
	}
	return named
}

// staleBelow has the groups that depend on a controller composed again: those of its own pods and of what it controls. It returns
// the keys of the groups that have these pods now, and of those that had them when they were divided last; st.mu is held to write.
func (st *State) staleBelow(o *Owner) (keys []governing.GroupKey) {
	ns := st.namespaces[o.Namespace]
	for _, uid := range st.selfAndBelow(o) {
		keys = append(keys, governing.GroupKey{Namespace: o.Namespace, ID: string(uid)})
		if ns == nil || ns.owned[uid] == nil {
			continue
		}
		keys = st.keysOf(keys, ns.owned[uid])
		ns.stale(uid)
	}
	slices.SortFunc(keys, func(a, b governing.GroupKey) int { return cmp.Compare(a.ID, b.ID) })
	return slices.Compact(keys)
}

// keysOf appends the groups that have the pods of a controller now, and the one that had them when they were divided last; an ID of ""
// if there were more.
func (st *State) keysOf(to []governing.GroupKey, m *members) []governing.GroupKey {
	namespace := m.pods[0].Namespace
	switch len(m.parts) {
	case 0:
	case 1:
		to = append(to, governing.GroupKey{Namespace: namespace, ID: m.parts[0].id})
	default:
		return append(to, governing.GroupKey{Namespace: namespace})
	}
	for i, p := range m.pods {
		if i == 0 || !sameMix(m.pods[i-1], p) {
			to = append(to, st.keyOf(p))
		}
	}
	return to
}

// selfAndBelow returns a controller and all that it controls, also at several removes: the groups of these pods may be by their
// highest owner. References may form a circle.
func (st *State) selfAndBelow(o *Owner) []types.UID {
	all := []types.UID{o.UID}
	if len(st.below[o.UID]) == 0 {
		return all
	}
	seen := map[types.UID]bool{o.UID: true}
	for i := 0; i < len(all); i++ {
		for _, uid := range st.below[all[i]] {
			if !seen[uid] {
				seen[uid] = true
				all = append(all, uid)
			}
		}
	}
	return all
}

// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"maps"
	"slices"
)

// Size returns how many pods of a namespace a mix may govern.
func (st *State) Size(namespace string) (n int) {
	st.mu.RLock()
	defer st.mu.RUnlock()
	if ns := st.namespaces[namespace]; ns != nil {
		for _, m := range ns.owned {
			n += len(m.pods)
		}
	}
	return n
}

// Pods returns the pods of a namespace, in no order, without those that belong
// to a node.
func (st *State) Pods(namespace string) []*Pod {
	st.mu.RLock()
	defer st.mu.RUnlock()
	ns := st.namespaces[namespace]
	if ns == nil {
		return nil
	}
	var all []*Pod
	for _, m := range ns.owned {
		all = append(all, m.pods...)
	}
	return all
}

// AllPods returns the pods of a namespace, those that belong to a node included,
// in no order.
func (st *State) AllPods(namespace string) []*Pod {
	all := st.Pods(namespace)
	st.mu.RLock()
	defer st.mu.RUnlock()
	return slices.AppendSeq(all, maps.Keys(st.ungoverned[namespace]))
}

// AllNamespaces returns the namespaces that have pods of any kind, in no order.
func (st *State) AllNamespaces() []string {
	all := st.Namespaces()
	st.mu.RLock()
	defer st.mu.RUnlock()
	for name := range st.ungoverned {
		if st.namespaces[name] == nil {
			all = append(all, name)
		}
	}
	return all
}

// Namespaces returns the namespaces that have pods, in no order.
func (st *State) Namespaces() []string {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return slices.Collect(maps.Keys(st.namespaces))
}

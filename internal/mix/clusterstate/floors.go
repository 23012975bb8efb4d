// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
)

// floorKey is a value of the label berth.dev/floor in a namespace.
type floorKey struct{ namespace, label string }

func floorOf(p *Pod) (key floorKey, labelled bool) {
	label, labelled := p.Labels[v1alpha1.FloorLabel]
	return floorKey{p.Namespace, label}, labelled
}

// hold and drop keep the index of the pods with the label; st.mu is held.
func (st *State) hold(p *Pod) {
	key, labelled := floorOf(p)
	switch {
	case !labelled:
	case st.floors[key] == nil:
		st.floors[key] = map[*Pod]struct{}{p: {}}
	default:
		st.floors[key][p] = struct{}{}
	}
}

func (st *State) drop(p *Pod) {
	key, labelled := floorOf(p)
	if !labelled {
		return
	}
	if delete(st.floors[key], p); len(st.floors[key]) == 0 {
		delete(st.floors, key)
	}
}

func (st *State) floorChanged(p *Pod) {
	if key, labelled := floorOf(p); labelled && st.FloorChanged != nil {
		st.FloorChanged(key.namespace, key.label)
	}
}

// Labelled returns the live pods of a namespace whose label berth.dev/floor has a value, whatever governs them; oldest first.
func (st *State) Labelled(namespace, label string) (list []*Pod) {
	st.mu.RLock()
	defer st.mu.RUnlock()
	for p := range maps.Keys(st.floors[floorKey{namespace, label}]) {
		if p.Live() {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, older)
	return list
}

// MissingSuccessors returns how many pods the ReplicaSets lack from which replicas of a group with a label were released.
func (st *State) MissingSuccessors(namespace, group, label string) (n int) {
	released := map[types.UID]int{}
	for _, p := range st.Labelled(namespace, label) {
		if from, _ := p.ReleasedFrom(); from.Group == group && p.Leaves() {
			released[from.ReplicaSet]++
		}
	}
	for uid, of := range released {
		crew := st.CrewOf(namespace, uid)
		n += min(of, max(0, crew.Asked-len(crew.Live)))
	}
	return n
}

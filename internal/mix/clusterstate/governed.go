// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"reflect"
	"slices"

	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// mixKey distinguishes the mixes of an owner's pods.
type mixKey struct {
	source string
	mix    split.Mix
}

// governed returns the mix that governs most of an owner's live pods, sorted by age, and the pods that it governs. Each pod
// is resolved by itself, as the scheduler does, so that the labels of one never decide for the others. Of mixes with
// equally many pods, that of the newest pod counts. st.mu is locked to write.
func (st *State) governed(live []*Pod) ([]*Pod, *governing.Mix) {
	if len(live) == 0 || !alike(live) {
		return st.governedByMost(live)
	}
	live[0].Into(&st.scratch)
	found, _ := st.mixOf(live[0], &st.scratch)
	return live, found
}

// governedByMost is governed for pods that differ.
func (st *State) governedByMost(live []*Pod) ([]*Pod, *governing.Mix) {
	mixes := make([]*governing.Mix, len(live))
	count := map[mixKey]int{}
	var best *governing.Mix
	var most int
	for i, p := range live {
		if i > 0 && sameMix(live[i-1], p) {
			mixes[i] = mixes[i-1]
		} else {
			p.Into(&st.scratch)
			mixes[i], _ = st.mixOf(p, &st.scratch)
		}
		if found := mixes[i]; found != nil {
			key := mixKey{found.Source, found.Mix}
			if count[key]++; count[key] >= most {
				best, most = found, count[key]
			}
		}
	}
	if best == nil || most == len(live) {
		return live, best
	}
	governed := make([]*Pod, 0, most)
	for i, found := range mixes {
		if found != nil && found.Source == best.Source && found.Mix == best.Mix {
			governed = append(governed, live[i])
		}
	}
	return governed, best
}

// alike reports whether the same mix governs all pods of one owner for certain.
func alike(pods []*Pod) bool {
	return !slices.ContainsFunc(pods, func(p *Pod) bool { return !sameMix(pods[0], p) })
}

// sameMix reports whether the same mix governs two pods of one owner for certain: pods share sets that are equal.
func sameMix(a, b *Pod) bool {
	return a.SchedulerName == b.SchedulerName && a.SameLabels(b) && sameSet(a.Annotations, b.Annotations)
}

// SameLabels reports whether two pods of one state have the same labels. It is as fast as a comparison of pointers.
func (p *Pod) SameLabels(o *Pod) bool { return p.LabelSet() == o.LabelSet() }

// LabelSet identifies a set of labels in a state, which has each set once.
type LabelSet uintptr

// LabelSet returns the set of a pod's labels: pods with the same labels have the same one.
func (p *Pod) LabelSet() LabelSet { return LabelSet(reflect.ValueOf(p.Labels).Pointer()) }

func sameSet(a, b map[string]string) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

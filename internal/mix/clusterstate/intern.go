// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What pods have in common is kept once. These tables only grow while the pods
// they serve come and go; sweep rebuilds them from what is still in use.

type texts map[string]string

func (t texts) one(s string) string {
	if s == "" {
		return ""
	}
	if known, ok := t[s]; ok {
		return known
	}
	s = strings.Clone(s)
	t[s] = s
	return s
}

// sets keeps label and annotation sets by their canonical text.
type sets struct {
	texts texts
	byKey map[string]map[string]string
}

func (s *sets) one(set map[string]string) map[string]string {
	if len(set) == 0 {
		return nil
	}
	key := canonical(set)
	if known, ok := s.byKey[key]; ok {
		return known
	}
	kept := make(map[string]string, len(set))
	for k, v := range set {
		kept[s.texts.one(k)] = s.texts.one(v)
	}
	s.byKey[key] = kept
	return kept
}

// same is one for a set that is likely to be the same as before.
func (s *sets) same(before, set map[string]string) map[string]string {
	if before != nil && maps.Equal(before, set) {
		return before
	}
	return s.one(set)
}

// canonical is a text that two sets share exactly when they are equal. Texts
// come with their lengths: an annotation's value may hold any byte, and must
// not pass for another pod's annotations.
func canonical(set map[string]string) string {
	var b strings.Builder
	var length [20]byte
	write := func(s string) {
		b.Write(append(strconv.AppendInt(length[:0], int64(len(s)), 10), ':'))
		b.WriteString(s)
	}
	for _, k := range slices.Sorted(maps.Keys(set)) {
		write(k)
		write(set[k])
	}
	return b.String()
}

// owners are references to controllers. Pods share one only where all of it is equal: a UID alone may be that of a
// controller in another namespace, in a reference that a tenant made up.
type owners struct {
	texts texts
	byRef map[ownerRef]*metav1.OwnerReference
}

type ownerRef struct {
	apiVersion, kind, name string
	uid                    types.UID
}

func refOf(ref *metav1.OwnerReference) ownerRef {
	return ownerRef{ref.APIVersion, ref.Kind, ref.Name, ref.UID}
}

func newOwners(t texts) owners {
	return owners{texts: t, byRef: map[ownerRef]*metav1.OwnerReference{}}
}

func (o *owners) one(ref *metav1.OwnerReference) *metav1.OwnerReference {
	if known, ok := o.byRef[refOf(ref)]; ok {
		return known
	}
	controller := true
	kept := &metav1.OwnerReference{
		APIVersion: o.texts.one(ref.APIVersion), Kind: o.texts.one(ref.Kind), Name: strings.Clone(ref.Name),
		UID: types.UID(strings.Clone(string(ref.UID))), Controller: &controller,
	}
	o.byRef[refOf(kept)] = kept
	return kept
}

// minSweep is how many texts and sets are kept before it is worth looking for unused ones.
const minSweep = 4096

// sweep drops what no pod uses any more, when the tables have doubled since the
// last time. st.mu is held.
func (st *State) sweep() {
	if st.tables() < st.sweepAt {
		return
	}
	old := st.pods
	st.texts = texts{}
	st.sets = sets{texts: st.texts, byKey: map[string]map[string]string{}}
	st.owners = newOwners(st.texts)
	for _, p := range old {
		// Readers may hold the record, so its fields stay; only the tables are new.
		st.sets.keep(p.Labels)
		st.sets.keep(p.Annotations)
		if p.Owner != nil {
			st.owners.byRef[refOf(p.Owner)] = p.Owner
		}
	}
	st.sweepAt = max(minSweep, 2*st.tables())
}

func (st *State) tables() int { return len(st.texts) + len(st.sets.byKey) + len(st.owners.byRef) }

// keep puts a set that is in use into the table as it is.
func (s *sets) keep(set map[string]string) {
	if len(set) == 0 {
		return
	}
	key := canonical(set)
	s.byKey[key] = set
}

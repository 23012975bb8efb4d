// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"cmp"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// part is the live pods of one controller that are in one group, sorted by age.
type part struct {
	of *members
	// id is the ID of the group's key.
	id   string
	live []*Pod
	// mix governs all of the pods, or mixes has that of each; nil for none.
	mix   *governing.Mix
	mixes []*governing.Mix
	// terminating counts the pods of the controller that would be among them, and hold no slot any more.
	terminating int
}

// mixAt is the mix of one of the pods.
func (p *part) mixAt(i int) *governing.Mix {
	if p.mixes == nil {
		return p.mix
	}
	return p.mixes[i]
}

// partsOf divides the pods of a controller. Each pod is resolved by itself, as the scheduler does, so that the labels of one never
// decide for the others. st.mu is locked to write.
func (st *State) partsOf(m *members) []*part {
	there := make([]*Pod, 0, len(m.pods))
	for _, p := range m.pods {
		if !p.Finished && !p.OtherGates {
			there = append(there, p)
		}
	}
	slices.SortFunc(there, older)
	live := there
	if slices.ContainsFunc(there, terminates) {
		live = slices.DeleteFunc(slices.Clone(there), terminates)
	}
	if len(live) == 0 {
		return nil
	}
	if alike(there) {
		mix, id := st.partOf(live[0])
		return []*part{{of: m, id: id, live: live, mix: mix, terminating: len(there) - len(live)}}
	}
	return st.partsOfEach(m, there)
}

func terminates(p *Pod) bool { return p.Terminating }

// partsOfEach is partsOf for pods that may be in several groups, which are sorted by age.
func (st *State) partsOfEach(m *members, there []*Pod) (parts []*part) {
	byID, most := map[string]*part{}, len(there)
	seen := map[sameness]resolution{} // of replicas on the two types, one has the label berth.dev/floor and the next one does not
	for _, p := range there {
		as := samenessOf(p)
		in, found := seen[as]
		if !found {
			in.mix, in.id = st.partOf(p)
			seen[as] = in
		}
		mix, id := in.mix, in.id
		of := byID[id]
		if of == nil {
			of = &part{of: m, id: id, live: make([]*Pod, 0, most), mixes: make([]*governing.Mix, 0, most)}
			byID[id], most = of, 0 // in general it is the only one
			parts = append(parts, of)
		}
		if p.Terminating {
			of.terminating++
		} else {
			of.live, of.mixes = append(of.live, p), append(of.mixes, mix)
		}
	}
	parts = slices.DeleteFunc(parts, func(p *part) bool { return len(p.live) == 0 })
	for _, p := range parts {
		p.unify()
	}
	return parts
}

// unify notes that one mix governs all of the pods, if that is so.
func (p *part) unify() {
	newest := p.mixes[len(p.mixes)-1]
	for _, m := range p.mixes {
		if m != newest && (m == nil || newest == nil || keyOfMix(m) != keyOfMix(newest)) {
			return
		}
	}
	p.mix, p.mixes = newest, nil
}

// partOf returns the mix of a pod, nil for none, and the ID of its group: "" for a pod without a controller that nothing governs.
func (st *State) partOf(p *Pod) (*governing.Mix, string) {
	p.Into(&st.scratch)
	mix, _ := st.mixOf(&st.scratch)
	member, _ := st.resolver.Member(&st.scratch, mix)
	return mix, member.Group.ID
}

// mixKey distinguishes the mixes of a group's pods.
type mixKey struct {
	source, role string
	mix          split.Mix
	grouping     governing.Grouping
	unit         governing.Unit
}

func keyOfMix(m *governing.Mix) mixKey {
	if m.Grouping.By == governing.ByName { // on pods and on controllers alike
		return mixKey{"", m.RoleName, m.Mix, m.Grouping, m.Unit}
	}
	return mixKey{m.Source, m.RoleName, m.Mix, m.Grouping, m.Unit}
}

// governed returns the mix that governs most of a group's live pods, the pods that it governs, sorted by age, and the others. Of
// mixes with equally many pods, that of the newest pod counts.
func governed(parts []*part) (pods []*Pod, mix *governing.Mix, others []*Pod) {
	if len(parts) == 1 && parts[0].mixes == nil {
		return parts[0].live, parts[0].mix, nil
	}
	all := membersOf(parts)
	count := map[mixKey]int{}
	most := 0
	for _, m := range all {
		if m.mix == nil {
			continue
		}
		key := keyOfMix(m.mix)
		if count[key]++; count[key] >= most {
			mix, most = m.mix, count[key]
		}
	}
	for _, m := range all {
		if mix != nil && m.mix != nil && keyOfMix(m.mix) == keyOfMix(mix) {
			pods = append(pods, m.pod)
		} else {
			others = append(others, m.pod)
		}
	}
	return pods, mix, others
}

// resolved is a pod with its mix.
type resolved struct {
	pod *Pod
	mix *governing.Mix
}

// membersOf returns the pods of all parts, sorted by age.
func membersOf(parts []*part) (all []resolved) {
	for _, p := range parts {
		for i, pod := range p.live {
			all = append(all, resolved{pod, p.mixAt(i)})
		}
	}
	slices.SortFunc(all, func(a, b resolved) int {
		return cmp.Or(cmp.Compare(a.pod.Created, b.pod.Created), cmp.Compare(a.pod.UID, b.pod.UID))
	})
	return all
}

// alike reports whether the same mix governs all pods of one owner for certain.
func alike(pods []*Pod) bool {
	return !slices.ContainsFunc(pods, func(p *Pod) bool { return !sameMix(pods[0], p) })
}

// sameMix reports whether the same mix governs two pods of one owner for certain, in the same group: pods share sets that are equal.
func sameMix(a, b *Pod) bool {
	return samenessOf(a) == samenessOf(b)
}

// sameness is what pods have in common if sameMix is true for them.
type sameness struct {
	owner               *metav1.OwnerReference
	scheduler           string
	labels, annotations uintptr
}

func samenessOf(p *Pod) sameness {
	return sameness{p.Owner, p.SchedulerName, identityOf(p.Labels), identityOf(p.Annotations)}
}

// resolution is the mix of pods, and the ID of their group.
type resolution struct {
	mix *governing.Mix
	id  string
}

// SameLabels reports whether two pods of one state have the same labels. It is as fast as a comparison of pointers.
func (p *Pod) SameLabels(o *Pod) bool { return p.LabelSet() == o.LabelSet() }

// LabelSet identifies a set of labels in a state, which has each set once.
type LabelSet uintptr

// LabelSet returns the set of a pod's labels: pods with the same labels have the same one.
func (p *Pod) LabelSet() LabelSet { return LabelSet(identityOf(p.Labels)) }

func identityOf(set map[string]string) uintptr { return reflect.ValueOf(set).Pointer() }

func sameSet(a, b map[string]string) bool { return identityOf(a) == identityOf(b) }

// liveOf counts the live pods of a controller.
func liveOf(m *members) (n int) {
	for _, p := range m.parts {
		n += len(p.live)
	}
	return n
}

// heldOf counts the pods of a part's controller that would be in the group, and may not run yet.
func (st *State) heldOf(part *part) (n int) {
	for _, p := range part.of.pods {
		if p.OtherGates && p.Live() {
			if _, id := st.partOf(p); id == part.id {
				n++
			}
		}
	}
	return n
}

// governedBy counts the pods that a mix governs.
func (p *part) governedBy(m *governing.Mix) (n int) {
	if p.mixes == nil {
		if p.mix == nil || keyOfMix(p.mix) != keyOfMix(m) {
			return 0
		}
		return len(p.live)
	}
	for _, of := range p.mixes {
		if of != nil && keyOfMix(of) == keyOfMix(m) {
			n++
		}
	}
	return n
}

// runsOnce reports whether what controls the pods counts the end of one of them as success or failure.
func (p *part) runsOnce() bool {
	return slices.ContainsFunc(p.live, func(pod *Pod) bool { return pod.RunsOnce })
}

// SPDX-License-Identifier: Apache-2.0

package governing

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/split"
)

// GroupKey identifies the pods to which one mix applies together.
type GroupKey struct {
	Namespace string
	// ID is the UID of the pods' controller; that of their highest owner with the name of the CapacityMix that groups by it; otherwise it
	// has a slash and names a set, a CapacityMix or a group of annotations.
	ID string
}

// underMark is between the UID of an owner and the name of a CapacityMix. The API server gives neither this letter.
const underMark = "~"

// Owner returns the UID of the owner whose pods the group has, "" if it is identified in another way.
func (k GroupKey) Owner() types.UID {
	if strings.Contains(k.ID, "/") {
		return ""
	}
	uid, _, _ := strings.Cut(k.ID, underMark)
	return types.UID(uid)
}

// Under is the group of those of an owner's pods that a CapacityMix governs and groups by their highest owner. Another mix of that owner
// has another sequence: each has its own floor, and would take the slots of the other.
func (k GroupKey) Under(mix string) GroupKey {
	k.ID += underMark + mix
	return k
}

// Member is what a pod is in the group of its mix.
type Member struct {
	Group GroupKey
	// Unit identifies the pods of the group that hold one slot together, "" for a pod that holds a slot alone.
	Unit string
	// Slot is the slot that follows from the identity of the pod or its unit, split.NoSlot where none does.
	Slot int
	// AnyOrder is set where the pods of the group are removed in an order that does not follow their slots.
	AnyOrder bool
}

// Member returns what a pod is in the group of the mix that governs it. m may be nil for a pod with a controller: then it is what
// a mix without settings for groups would make of it. ok is false for a pod that belongs to no group.
func (r *Resolver) Member(pod *corev1.Pod, m *Mix) (member Member, ok bool) {
	member = Member{Group: GroupKey{Namespace: pod.Namespace}, Slot: split.NoSlot}
	ref := metav1.GetControllerOfNoCopy(pod)
	set := SetOf(pod)
	var by By
	if m != nil {
		by = m.Grouping.By
	}
	switch {
	case by == BySelector || by == ByName || ref == nil:
		if m == nil {
			return member, false
		}
		member.Group.ID, member.AnyOrder = m.group(), true
	case by == ByTop:
		member.Group, member.AnyOrder = r.top(pod, ref, set, m), true
	case by == ByDefault && set != nil:
		member.Group.ID, member.Slot, member.AnyOrder = set.id(pod)+m.among(), set.slot(pod), true
	default:
		r.byController(&member, pod, ref, m, by)
	}
	if m != nil {
		m.unit(&member, pod, set)
		if m.RoleName != "" {
			member.Group.ID += "/" + m.RoleName
		}
	}
	return member, true
}

// GroupedByMix reports whether the group or the unit of a pod depends on its mix even if that has no settings for groups.
func (r *Resolver) GroupedByMix(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || SetOf(pod) != nil {
		return true
	}
	_, onePod := r.OnePodKinds[schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()]
	return onePod
}

// byController is Member for a pod whose group is that of its direct controller, or of the set that a controller with one pod is in.
func (r *Resolver) byController(member *Member, pod *corev1.Pod, ref *metav1.OwnerReference, m *Mix, by By) {
	if by == ByDefault {
		if id, ok := r.OnePodKinds.setOf(pod, ref, m); ok {
			member.Group.ID, member.AnyOrder = id, true
			return
		}
	}
	member.Group.ID = bounded(string(ref.UID))
	if slot, ok := IdentitySlot(pod, r.Controllers); ok {
		member.Slot = slot
	}
	member.AnyOrder = RemovedInAnyOrder(pod, m)
}

// maxHeight bounds the owners above a pod that are followed. No tool has more, and references may form a circle.
const maxHeight = 8

// top identifies the highest owner of a pod that the caches name. A set that is known by its labels is taken for the highest
// owner of its pods: between them and the set are objects that the caches do not have. The annotations of a workload are those of all
// of its revisions, so they are one mix also while it changes.
func (r *Resolver) top(pod *corev1.Pod, ref *metav1.OwnerReference, set *Set, m *Mix) GroupKey {
	key := GroupKey{Namespace: pod.Namespace}
	if set != nil {
		key.ID = set.id(pod) + m.among()
		return key
	}
	key.ID = bounded(string(r.topOf(pod, ref).UID))
	if name, ok := strings.CutPrefix(m.Source, SourceCapacityMix); ok {
		key = key.Under(name)
	}
	return key
}

func (r *Resolver) topOf(pod *corev1.Pod, ref *metav1.OwnerReference) *metav1.OwnerReference {
	for range maxHeight {
		owner := r.Controllers.Controller(pod.Namespace, ref)
		if owner == nil {
			break
		}
		above := metav1.GetControllerOfNoCopy(owner)
		if above == nil {
			break
		}
		ref = above
	}
	return ref
}

// unit sets the unit of a member. Each pod of a unit has the slot of the unit, and only units by the labels of a set have numbers.
func (m *Mix) unit(member *Member, pod *corev1.Pod, set *Set) {
	bySet := set != nil && m.Grouping.By != ByController
	switch g := pod.Spec.SchedulingGroup; {
	case m.Unit.By == UnitByDefault && bySet:
		member.Unit = pod.Labels[set.Unit]
	case m.Unit.By == UnitByLabel:
		member.Unit = pod.Labels[m.Unit.Label]
	case m.Unit.By == UnitBySchedulingGroup && g != nil:
		member.Unit = ptr.Deref(g.PodGroupName, "")
	}
	if m.Unit.By != UnitByDefault && (bySet || member.Unit != "") {
		member.Slot = split.NoSlot
	}
	if member.Unit != "" {
		member.AnyOrder = true
	}
}

// group identifies the group of all pods of a mix.
func (m *Mix) group() string {
	switch {
	case m.Grouping.By == ByName:
		return "annotations/" + m.Grouping.Name + "/" + m.Mix.String()
	case m.Source == SourcePod:
		// Bare pods with their own annotations are one group per mix.
		return SourcePod + "/" + m.Mix.String()
	}
	return m.Source
}

// among distinguishes the pods of a set by what governs them: two mixes of one set have a sequence each.
func (m *Mix) among() string {
	switch {
	case m == nil:
		return ""
	case m.Source == SourceController:
		return "/of/" + m.Source + "/" + m.Mix.String()
	}
	return "/of/" + m.group()
}

// Plain reports whether the group of each pod with a controller is that of a mix without settings for groups, so that it does not
// depend on the mix.
func (m *Mix) Plain() bool {
	return m.Grouping.By == ByDefault && m.Unit.By == UnitByDefault && len(m.Roles) == 0 && m.RoleName == ""
}

// Named returns a reference to what the group of a pod is named after, nil where that is the pod's controller.
func (r *Resolver) Named(pod *corev1.Pod, m *Mix) *metav1.OwnerReference {
	ref, set := metav1.GetControllerOfNoCopy(pod), SetOf(pod)
	switch by := m.Grouping.By; {
	case by == ByName:
		return &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: m.Grouping.Name}
	case by == BySelector:
		return m.reference()
	case ref == nil:
		return &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: m.group()}
	case set != nil && by != ByController:
		return &metav1.OwnerReference{APIVersion: set.GroupVersion().String(), Kind: set.Kind, Name: pod.Labels[set.Name]}
	case by == ByTop:
		return r.topOf(pod, ref)
	case by == ByDefault:
		return r.OnePodKinds.named(pod, ref, m)
	}
	return nil
}

// reference names a mix as what its pods have in common.
func (m *Mix) reference() *metav1.OwnerReference {
	if name, ok := strings.CutPrefix(m.Source, SourceCapacityMix); ok {
		return &metav1.OwnerReference{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "CapacityMix", Name: name, UID: m.UID,
		}
	}
	return &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: m.group()}
}

// SPDX-License-Identifier: Apache-2.0

package governing

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/internal/mix/split"
)

// Set is an object of which pods are replicas though it is not their direct controller. Its pods have its name in a label.
type Set struct {
	schema.GroupVersionKind
	// Name is the label with the name of the set, Unit the one that identifies the pods that start and end together, and Index
	// the one with the number of that unit from 0, of sets that remove the highest numbers first. Empty: none.
	Name, Unit, Index string
	// Member is the label with the number of a pod in its unit, which is 0 for the leader, and Size the annotation with the number of
	// pods that a unit has. Empty: none.
	Member, Size string
	// Makers are the kinds of controllers of its pods: labels alone may be copied.
	Makers []schema.GroupKind
	// RestartsWhole is set where the end of one pod has all pods of its unit created again, unless the set has another restartPolicy.
	RestartsWhole bool
}

// setKinds are the kinds whose pods are recognised by their labels. Sources: the APIs, controllers and webhooks of sigs.k8s.io/lws
// v0.9.0 and sigs.k8s.io/jobset v0.12.0, read on 2026-11-29; the labels are the same since v0.6.2 and v0.10.1.
//
// A LeaderWorkerSet recreates a group of which a pod is deleted or a container restarts (RecreateGroupOnPodRestart, its default). A
// JobSet does not: the Job replaces the pod, and only a Job that has failed restarts or ends all jobs of the set.
var setKinds = []Set{
	{
		GroupVersionKind: schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"},
		Name:             "leaderworkerset.sigs.k8s.io/name",
		Unit:             "leaderworkerset.sigs.k8s.io/group-key",
		Index:            "leaderworkerset.sigs.k8s.io/group-index",
		Member:           "leaderworkerset.sigs.k8s.io/worker-index",
		Size:             "leaderworkerset.sigs.k8s.io/size",
		Makers:           []schema.GroupKind{{Group: "apps", Kind: "StatefulSet"}, {Kind: "Pod"}},
		RestartsWhole:    true,
	},
	{
		GroupVersionKind: schema.GroupVersionKind{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"},
		Name:             "jobset.sigs.k8s.io/jobset-name",
		Unit:             "jobset.sigs.k8s.io/job-key",
		Makers:           []schema.GroupKind{{Group: "batch", Kind: "Job"}},
	},
}

// ReadsAnnotation reports whether an annotation of the pods of a set is one that decisions depend on.
func ReadsAnnotation(key string) bool {
	return FollowsLeader(key) || slices.ContainsFunc(setKinds, func(s Set) bool { return s.Size != "" && s.Size == key })
}

// Leads reports whether a pod leads its unit: the operator makes the other pods for it.
func (s *Set) Leads(labels map[string]string) bool {
	return s != nil && s.Member != "" && labels[s.Member] == "0"
}

// SizeOf returns how many pods the unit of a pod has once it is whole, 0 if that is not known.
func (s *Set) SizeOf(annotations map[string]string) int {
	if s == nil || s.Size == "" {
		return 0
	}
	n, _ := number(annotations[s.Size])
	return n
}

// FollowsLeader reports whether an annotation of a pod of a LeaderWorkerSet limits workers to the domain of their leader.
func FollowsLeader(key string) bool {
	return strings.HasPrefix(key, "leaderworkerset.sigs.k8s.io/") && strings.HasSuffix(key, "-topology")
}

// SetOf returns the kind of the set that a pod belongs to by its labels and its controller, nil for none.
func SetOf(pod *corev1.Pod) *Set { return SetWith(pod.Labels, metav1.GetControllerOfNoCopy(pod)) }

// SetWith is SetOf for the labels and the controller of a pod, which may be nil.
func SetWith(labels map[string]string, controller *metav1.OwnerReference) *Set {
	if len(labels) == 0 || controller == nil {
		return nil
	}
	for i := range setKinds {
		if s := &setKinds[i]; labels[s.Name] != "" &&
			slices.Contains(s.Makers, schema.FromAPIVersionAndKind(controller.APIVersion, controller.Kind).GroupKind()) {
			return s
		}
	}
	return nil
}

// IdentityOf returns the keys of the labels that a webhook derives from the name of a pod of a set.
func IdentityOf(pod *corev1.Pod) []string {
	if set := SetOf(pod); set != nil && set.Index != "" {
		return []string{set.Unit, set.Index}
	}
	return nil
}

// RestartsWhole reports whether a kind of sets may create all pods of a unit again once one of them ends.
func RestartsWhole(apiVersion, kind string) bool {
	return slices.ContainsFunc(setKinds, func(s Set) bool {
		return s.RestartsWhole && s.Kind == kind && s.GroupVersion().String() == apiVersion
	})
}

// id is the part of a group's key that identifies the set of a pod.
func (s *Set) id(pod *corev1.Pod) string { return s.GroupKind().String() + "/" + pod.Labels[s.Name] }

// slot is the number of a pod's unit, NoSlot for none.
func (s *Set) slot(pod *corev1.Pod) int {
	if n, ok := number(pod.Labels[s.Index]); s.Index != "" && ok && n <= split.MaxSlot {
		return n
	}
	return split.NoSlot
}

// OnePodKinds are the kinds of owners that have one pod each, such as runners, task runs and game servers, with the label of their
// pods that names the set of the owner: "" for none.
type OnePodKinds map[schema.GroupKind]string

// setOf returns what identifies the set of a pod whose controller is of a kind that has one pod; ok is false for others. Without
// a label, all pods of the kind that a mix governs are one set.
func (kinds OnePodKinds) setOf(pod *corev1.Pod, ref *metav1.OwnerReference, m *Mix) (id string, ok bool) {
	if len(kinds) == 0 {
		return "", false
	}
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	label, ok := kinds[kind]
	switch {
	case !ok:
		return "", false
	case label != "" && pod.Labels[label] != "":
		return kind.String() + "/" + pod.Labels[label] + m.among(), true
	case m == nil:
		return "", false
	}
	return kind.String() + m.among(), true
}

// named is a reference to the set that setOf identifies, nil for none. Its name is that in the label, or that of the mix.
func (kinds OnePodKinds) named(pod *corev1.Pod, ref *metav1.OwnerReference, m *Mix) *metav1.OwnerReference {
	if _, ok := kinds.setOf(pod, ref, m); !ok {
		return nil
	}
	label := kinds[schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()]
	if name := pod.Labels[label]; label != "" && name != "" {
		return &metav1.OwnerReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: name}
	}
	return &metav1.OwnerReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: m.reference().Name}
}

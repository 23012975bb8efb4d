// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"encoding/binary"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// shared has what equal objects share. The replicas of a template have the same labels and, without the name of their node, the same spec,
// which would be most of a snapshot.
type shared struct {
	labels map[string]map[string]string
	specs  map[string]*corev1.PodSpec
	texts  map[string]string
	owners map[types.UID][]metav1.OwnerReference
	// needs are those of containers: a map of two quantities takes 600 bytes, and many containers have the same.
	needs map[string]corev1.ResourceRequirements
	// key is used again and again.
	key []byte
}

func newShared() shared {
	return shared{
		labels: map[string]map[string]string{}, specs: map[string]*corev1.PodSpec{}, texts: map[string]string{},
		owners: map[types.UID][]metav1.OwnerReference{}, needs: map[string]corev1.ResourceRequirements{},
	}
}

// share replaces what is equal to what other objects have.
func (s *shared) share(o Object) {
	o.SetNamespace(s.text(o.GetNamespace()))
	o.SetLabels(s.set(o.GetLabels()))
	o.SetAnnotations(s.set(o.GetAnnotations()))
	o.SetOwnerReferences(s.references(o.GetOwnerReferences()))
	switch o := o.(type) {
	case *corev1.Node: // those of an instance type have the same
		r := corev1.ResourceRequirements{Limits: o.Status.Capacity, Requests: o.Status.Allocatable}
		s.resources(&r)
		o.Status.Capacity, o.Status.Allocatable = r.Limits, r.Requests
	case *corev1.Pod:
		s.spec(&o.Spec)
	case *appsv1.ReplicaSet:
		s.template(&o.Spec.Template)
	case *appsv1.Deployment:
		s.template(&o.Spec.Template)
	case *appsv1.StatefulSet:
		s.template(&o.Spec.Template)
	case *batchv1.Job:
		s.template(&o.Spec.Template)
	}
}

func (s *shared) template(t *corev1.PodTemplateSpec) {
	t.Labels, t.Annotations = s.set(t.Labels), s.set(t.Annotations)
	s.spec(&t.Spec)
}

// spec shares all of a spec but the name of the node.
func (s *shared) spec(p *corev1.PodSpec) {
	node := s.text(p.NodeName)
	p.NodeName = ""
	key, err := p.Marshal()
	if err == nil { // it does not fail for what was decoded
		same, known := s.specs[string(key)]
		if !known {
			same = p.DeepCopy()
			for _, containers := range [][]corev1.Container{same.Containers, same.InitContainers} {
				for i := range containers {
					s.resources(&containers[i].Resources)
				}
			}
			s.specs[string(key)] = same
		}
		*p = *same
	}
	p.NodeName = node
}

func (s *shared) resources(r *corev1.ResourceRequirements) {
	key, err := r.Marshal()
	if err != nil {
		return // it does not fail for what was decoded
	}
	same, known := s.needs[string(key)]
	if !known {
		same = *r
		s.needs[string(key)] = same
	}
	*r = same
}

// references shares the references of objects with the same only owner.
func (s *shared) references(refs []metav1.OwnerReference) []metav1.OwnerReference {
	if len(refs) != 1 {
		return refs
	}
	same, known := s.owners[refs[0].UID]
	switch {
	case !known:
		s.owners[refs[0].UID] = refs
	case equality.Semantic.DeepEqual(same, refs):
		return same
	}
	return refs
}

func (s *shared) set(all map[string]string) map[string]string {
	if len(all) == 0 {
		return all
	}
	s.key = s.key[:0]
	for _, k := range slices.Sorted(maps.Keys(all)) {
		for _, part := range []string{k, all[k]} { // with its length: a file may have any text as a label
			s.key = append(binary.AppendUvarint(s.key, uint64(len(part))), part...)
		}
	}
	same, known := s.labels[string(s.key)]
	if !known {
		same = all
		s.labels[string(s.key)] = same
	}
	return same
}

func (s *shared) text(t string) string {
	same, known := s.texts[t]
	if !known {
		same = t
		s.texts[t] = same
	}
	return same
}

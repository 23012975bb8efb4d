// SPDX-License-Identifier: Apache-2.0

package replacement

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxName is the length at which the name of a pod that the API server completes is cut: it adds five characters to 58. maxLabel is
// the longest value of a label, which webhooks copy names to.
const maxName, maxLabel = 58, 63

// topology is the prefix of the labels that the API server copies from the node when a pod is bound.
const topology = "topology.kubernetes.io/"

// Template is what a pod's controller creates the next pod from.
type Template struct {
	// Owner and Field name it in messages, such as "ReplicaSet web" and "spec.template".
	Owner, Field string
	// Pod is nil where the template is that of a ControllerRevision that was not read yet.
	Pod *corev1.PodTemplateSpec
	// Revision is the name of that ControllerRevision, or of the one that equals the template. It is "" for other kinds.
	Revision string

	maker  Maker
	claims []string
	// subdomain is the serviceName of a StatefulSet.
	subdomain string
}

// Of returns the template of a controller of a kind of Kubernetes for the replacement of a pod.
func Of(owner metav1.Object, pod *corev1.Pod) (Template, error) {
	switch o := owner.(type) {
	case *appsv1.ReplicaSet:
		return Template{Owner: "ReplicaSet " + o.Name, Field: "spec.template", Pod: &o.Spec.Template, maker: ReplicaSet}, nil
	case *appsv1.StatefulSet:
		return ofStatefulSet(o, pod)
	case *batchv1.Job:
		return Template{Owner: "Job " + o.Name, Field: "spec.template", Pod: &o.Spec.Template, maker: Job}, nil
	case *corev1.ReplicationController:
		t := Template{Owner: "ReplicationController " + o.Name, Field: "spec.template", Pod: o.Spec.Template, maker: ReplicationController}
		if t.Pod == nil {
			return t, fmt.Errorf("%s has no spec.template", t.Owner)
		}
		return t, nil
	}
	return Template{}, fmt.Errorf("a %T creates no pods", owner)
}

// ofStatefulSet chooses the revision as newVersionedStatefulSetPod does in pkg/controller/statefulset of Kubernetes 1.37:
// below the partition, or below as many as are of the current revision, a pod is created again from the current revision, and
// all others, as with OnDelete, from the template.
func ofStatefulSet(o *appsv1.StatefulSet, pod *corev1.Pod) (Template, error) {
	t := Template{
		Owner: "StatefulSet " + o.Name, Field: "spec.template", Pod: &o.Spec.Template, Revision: o.Status.UpdateRevision,
		maker: StatefulSet, subdomain: o.Spec.ServiceName,
	}
	ordinal, err := ordinalOf(pod.Name)
	if err != nil {
		return t, err
	}
	for i := range o.Spec.VolumeClaimTemplates {
		t.claims = append(t.claims, o.Spec.VolumeClaimTemplates[i].Name)
	}
	if o.Status.ObservedGeneration < o.Generation {
		return t, fmt.Errorf("%s has changed, and status.updateRevision is not that of its spec.template yet", t.Owner)
	}
	if ordinal < current(o) && o.Status.CurrentRevision != o.Status.UpdateRevision {
		t.Pod, t.Revision, t.Field = nil, o.Status.CurrentRevision, "ControllerRevision "+o.Status.CurrentRevision
	}
	return t, nil
}

// current is the ordinal below which pods are of the current revision.
func current(o *appsv1.StatefulSet) int {
	first := 0
	if o.Spec.Ordinals != nil {
		first = int(o.Spec.Ordinals.Start)
	}
	rolling := o.Spec.UpdateStrategy.RollingUpdate
	switch {
	case rolling != nil && rolling.Partition != nil:
		return first + int(*rolling.Partition)
	case rolling != nil || o.Spec.UpdateStrategy.Type != appsv1.RollingUpdateStatefulSetStrategyType:
		return first
	}
	return first + int(o.Status.CurrentReplicas)
}

func ordinalOf(name string) (int, error) {
	n, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil {
		return 0, fmt.Errorf("the name of pod %s has no ordinal", name)
	}
	return n, nil
}

// ReadRevision completes the template of a StatefulSet with a revision that was read.
func (t *Template) ReadRevision(r *appsv1.ControllerRevision) error {
	var data struct {
		Spec struct {
			Template *corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return fmt.Errorf("ControllerRevision %s: data: %w", r.Name, err)
	}
	if data.Spec.Template == nil {
		return fmt.Errorf("ControllerRevision %s has no data.spec.template", r.Name)
	}
	t.Pod = data.Spec.Template
	return nil
}

// Replacement returns the pod that is created in the place of a pod, before it is admitted. The pod still exists, so the replacement
// has another name: one that the API server completes, or one that ends with the same ordinal, which webhooks read. Identity are the keys
// of labels that webhooks derive from the name of a pod: the replacement will have its name, and keeps them.
func (t *Template) Replacement(old *corev1.Pod, identity ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: old.Namespace, GenerateName: old.GenerateName}}
	from := t.Pod.DeepCopy()
	p.Labels, p.Annotations, p.Finalizers, p.Spec = from.Labels, from.Annotations, from.Finalizers, from.Spec
	switch {
	case t.maker == StatefulSet, t.maker == Unknown && p.GenerateName == "" && isNumbered(old.Name):
		p.Name = beside(old)
	case p.GenerateName == "":
		p.GenerateName = old.Name[:min(len(old.Name), maxName-1)] + "-"
	}
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	if ref := metav1.GetControllerOf(old); ref != nil {
		ref.BlockOwnerDeletion = nil // it requires a right on the finalizers of the owner
		p.OwnerReferences = []metav1.OwnerReference{*ref}
	}
	t.identify(p, old)
	for _, key := range identity {
		keep(p, old, key)
	}
	return p
}

// isNumbered reports whether the name of a pod ends with an ordinal.
func isNumbered(name string) bool {
	_, err := ordinalOf(name)
	return err == nil
}

// beside is a name for a pod that is created while a pod with the same ordinal exists. It is the same for each proof.
func beside(old *corev1.Pod) string {
	dash := strings.LastIndexByte(old.Name, '-')
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(old.UID)) // never fails
	end := fmt.Sprintf("-%08x%s", hash.Sum32(), old.Name[dash:])
	return strings.TrimRight(old.Name[:min(dash, maxLabel-len(end))], "-.") + end
}

// identify adds what a controller adds to its template.
func (t *Template) identify(p, old *corev1.Pod) {
	switch t.maker {
	case StatefulSet:
		ordinal := old.Name[strings.LastIndexByte(old.Name, '-')+1:]
		p.Labels[appsv1.StatefulSetPodNameLabel], p.Labels[appsv1.PodIndexLabel] = old.Name, ordinal
		p.Labels[appsv1.StatefulSetRevisionLabel] = t.Revision
		p.Spec.Hostname, p.Spec.Subdomain = old.Name, t.subdomain
		p.Spec.Volumes = t.volumes(p.Spec.Volumes, old.Name)
	case Job:
		keep(p, old, batchv1.JobCompletionIndexAnnotation)
	case Unknown: // operators add labels that constraints may select
		for k, v := range old.Labels {
			if _, there := p.Labels[k]; !there && !strings.HasPrefix(k, topology) {
				p.Labels[k] = v
			}
		}
	}
}

// keep copies a label and an annotation that are the pod's identity.
func keep(p, old *corev1.Pod, key string) {
	if v, there := old.Labels[key]; there {
		p.Labels[key] = v
	}
	if v, there := old.Annotations[key]; there {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, v)
	}
}

// volumes are the claims of a pod of a StatefulSet, and the volumes of the template that have no claim's name.
func (t *Template) volumes(own []corev1.Volume, pod string) []corev1.Volume {
	var all []corev1.Volume
	claimed := map[string]bool{}
	for _, name := range t.claims {
		claimed[name] = true
		all = append(all, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name + "-" + pod},
		}})
	}
	for i := range own {
		if !claimed[own[i].Name] {
			all = append(all, own[i])
		}
	}
	return all
}

// AsAdmitted returns a replacement with what the API server at least adds, where it could not be admitted without being
// created.
func AsAdmitted(next, old *corev1.Pod) *corev1.Pod {
	p := next.DeepCopy()
	if p.Spec.SchedulerName == "" {
		p.Spec.SchedulerName = corev1.DefaultSchedulerName
	}
	if p.Spec.PriorityClassName == old.Spec.PriorityClassName {
		p.Spec.Priority = old.Spec.Priority
	}
	for _, all := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range all {
			r := &all[i].Resources
			for name, limit := range r.Limits {
				if _, there := r.Requests[name]; there {
					continue
				}
				if r.Requests == nil {
					r.Requests = corev1.ResourceList{}
				}
				r.Requests[name] = limit
			}
		}
	}
	return p
}

// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"encoding/json"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/services/server"
)

// FormAnnotation on a ResourceLimit is the wire form that its scheduling rules were last written in. The type URLs of Any
// follow from it, and nothing else.
const FormAnnotation = v1alpha1.AnnotationPrefix + "/wire-form"

// form is how node_selector and node_affinity are on the wire.
type form string

const (
	// formAny is Any with type URLs below kubernetes.io, as the plan has it.
	formAny form = "any"
	// formGoogle is Any with the other type URLs.
	formGoogle form = "any-googleapis"
	// formMap is a map and a string.
	formMap form = "map"
)

// Limit is a ResourceLimit as callers see it.
type Limit struct {
	Name   string
	Labels map[string]string
	Spec   spec
	// Created and Deleted are RFC 3339; Deleted is empty unless it is being deleted.
	Created, Deleted string

	form form
}

// object is a ResourceLimit of the API server.
type object struct {
	stored
	// unreadable are the fields that could not be decoded. They are left out.
	unreadable []string
}

// stored is a ResourceLimit as the API server has it. Quantities are text: what was written is read back.
type stored struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   spec                         `json:"spec"`
	Status v1alpha1.ResourceLimitStatus `json:"status,omitzero"`
}

// spec is that of a ResourceLimit. Callers do not see selector.
type spec struct {
	Description      string                 `json:"description,omitempty"`
	CPU              text                   `json:"cpu,omitempty"`
	Memory           text                   `json:"memory,omitempty"`
	CPULimit         text                   `json:"cpuLimit,omitempty"`
	MemoryLimit      text                   `json:"memoryLimit,omitempty"`
	EphemeralStorage text                   `json:"ephemeralStorage,omitempty"`
	Volumes          map[string]volume      `json:"volumes,omitempty"`
	NodeSelector     map[string]string      `json:"nodeSelector,omitempty"`
	NodeAffinity     *v1alpha1.NodeAffinity `json:"nodeAffinity,omitempty"`
	Selector         json.RawMessage        `json:"selector,omitempty"`
}

// volume is a VolumeLimit. Callers do not see mountPath.
type volume struct {
	Size         text    `json:"size"`
	StorageClass *string `json:"storageClass,omitempty"`
	MountPath    string  `json:"mountPath,omitempty"`
}

// text is a quantity, which kubectl may have written as a number.
type text string

// UnmarshalJSON takes a string or a number.
func (t *text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(t))
	}
	var n json.Number
	if err := json.Unmarshal(b, &n); err != nil {
		return err
	}
	*t = text(n)
	return nil
}

// ours reports whether a label is Berth's, which callers neither see nor write.
func ours(key string) bool { return strings.HasPrefix(key, v1alpha1.AnnotationPrefix+"/") }

// checkLabels refuses what would not be read back.
func checkLabels(labels map[string]string) error {
	for key := range labels {
		if ours(key) {
			return server.InvalidField("metadata.labels", "must not have "+key+": labels with this prefix are Berth's")
		}
	}
	return nil
}

// newObject is the object that a caller requests.
func newObject(namespace string, l *Limit) *object {
	o := &object{}
	o.Spec = l.Spec
	o.Namespace, o.Name, o.Labels = namespace, l.Name, l.Labels
	o.setForm(l.form)
	return o
}

// replace sets an object to what a caller requests, but for what callers do not see: that stays.
func (o *object) replace(l *Limit) {
	before := o.Spec
	o.Spec = l.Spec
	o.Spec.Selector = before.Selector
	o.Spec.Volumes = maps.Clone(l.Spec.Volumes)
	for name, v := range o.Spec.Volumes {
		v.MountPath = before.Volumes[name].MountPath
		o.Spec.Volumes[name] = v
	}
	labels := o.Labels
	o.Labels = maps.Clone(l.Labels)
	for key, value := range labels {
		if ours(key) {
			metav1.SetMetaDataLabel(&o.ObjectMeta, key, value)
		}
	}
	o.setForm(l.form)
}

// setForm remembers the form of what was written. Who wrote no scheduling rules has shown no form.
func (o *object) setForm(f form) {
	if f != "" {
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, FormAnnotation, string(f))
	}
}

func (o *object) limit() *Limit {
	l := &Limit{
		Name: o.Name, Labels: maps.Clone(o.Labels), Spec: o.Spec, form: form(o.Annotations[FormAnnotation]),
		Created: server.RFC3339(&o.CreationTimestamp), Deleted: server.RFC3339(o.DeletionTimestamp),
	}
	maps.DeleteFunc(l.Labels, func(key, _ string) bool { return ours(key) })
	return l
}

// SPDX-License-Identifier: Apache-2.0

package mcpimport

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// Write returns the ConfigMap of a limit in a form, with the same namespace. The same limit gives the same bytes. Notes
// say what of the limit upstream does not know and is left out: labels with a prefix, mount paths, the pod selector.
func Write(limit *v1alpha1.ResourceLimit, form Form) (cm *corev1.ConfigMap, notes []string) {
	w := &writer{form: form, data: map[string]string{}}
	spec := &limit.Spec
	w.required(keyCPU, spec.CPU)
	w.required(keyMemory, spec.Memory)
	w.optional(keyCPULimit, spec.CPULimit)
	w.optional(keyMemoryLimit, spec.MemoryLimit)
	w.optional(keyEphemeralStorage, spec.EphemeralStorage)
	w.volumes(spec.Volumes)
	w.object(keyNodeSelector, spec.NodeSelector, len(spec.NodeSelector) == 0)
	w.nodeAffinity(spec.NodeAffinity)
	if spec.Selector != nil {
		w.notes = append(w.notes, "spec.selector: left out")
	}
	cm = &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: limit.Namespace, Name: form.namePrefix() + limit.Name, Labels: form.Selector()},
		Data:       w.data,
	}
	if form == FormQuoted {
		cm.Labels[namespaceLabel+limit.Namespace] = "1"
	}
	for _, key := range slices.Sorted(maps.Keys(limit.Labels)) {
		if strings.Contains(key, "/") {
			w.notes = append(w.notes, fmt.Sprintf("metadata.labels[%s]: left out", key))
			continue
		}
		cm.Labels[customPrefix+key] = limit.Labels[key]
	}
	if spec.Description != "" || form == FormQuoted {
		cm.Annotations = map[string]string{annotationDescription: spec.Description}
	}
	return cm, w.notes
}

type writer struct {
	form  Form
	data  map[string]string
	notes []string
}

// required is a field that upstream's code always has: absent is an empty string.
func (w *writer) required(key string, q *resource.Quantity) {
	if q == nil && w.form == FormQuoted {
		w.data[key] = `""`
		return
	}
	w.optional(key, q)
}

func (w *writer) optional(key string, q *resource.Quantity) {
	switch {
	case q == nil && w.form == FormQuoted:
		w.data[key] = "null"
	case q == nil:
	case w.form == FormQuoted:
		w.data[key] = compact(q.String())
	default:
		w.data[key] = q.String()
	}
}

func (w *writer) volumes(volumes map[string]v1alpha1.VolumeLimit) {
	written := map[string]volume{}
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		v := volumes[name]
		written[name] = volume{Size: v.Size.String(), StorageClass: v.StorageClass}
		if v.MountPath != "" {
			w.notes = append(w.notes, fmt.Sprintf("spec.volumes[%s].mountPath: left out", name))
		}
	}
	w.object(keyVolumes, written, len(written) == 0)
}

func (w *writer) object(key string, value any, empty bool) {
	switch {
	case !empty:
		w.data[key] = compact(value)
	case w.form == FormQuoted:
		w.data[key] = "{}"
	}
}

// nodeAffinity is text in the message of upstream's code, so its JSON is quoted once more there.
func (w *writer) nodeAffinity(a *v1alpha1.NodeAffinity) {
	switch {
	case a == nil && w.form == FormQuoted:
		w.data[keyNodeAffinity] = "null"
	case a == nil:
	case w.form == FormQuoted:
		w.data[keyNodeAffinity] = compact(compact(map[string]any{"nodeAffinity": a}))
	default:
		w.data[keyNodeAffinity] = compact(map[string]any{"nodeAffinity": a})
	}
}

// compact is JSON with sorted keys. What is written here has no value that JSON cannot hold.
func compact(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("marshal %T: %v", value, err))
	}
	return string(data)
}

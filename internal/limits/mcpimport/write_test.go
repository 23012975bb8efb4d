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

// Write returns the ConfigMap of a limit in a form, with the same namespace. The same limit gives the same bytes. notes
// are what upstream does not have and is left out: labels with a prefix, mount paths, the pod selector.
func Write(limit *v1alpha1.ResourceLimit, form Form) (cm *corev1.ConfigMap, notes []string) {
	w := &writer{form: form, data: map[string]string{}}
	spec := &limit.Spec
	// Upstream's code always has the first two: absent is an empty string.
	w.quantity(keyCPU, spec.CPU, `""`)
	w.quantity(keyMemory, spec.Memory, `""`)
	w.quantity(keyCPULimit, spec.CPULimit, "null")
	w.quantity(keyMemoryLimit, spec.MemoryLimit, "null")
	w.quantity(keyEphemeralStorage, spec.EphemeralStorage, "null")
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

// text writes a value that is text in the message of upstream's code.
func (w *writer) text(key, value string) {
	if w.form == FormQuoted {
		value = compact(value)
	}
	w.data[key] = value
}

// absent writes the form's representation of an absent value.
func (w *writer) absent(key, value string) {
	if w.form == FormQuoted {
		w.data[key] = value
	}
}

func (w *writer) quantity(key string, q *resource.Quantity, absent string) {
	if q == nil {
		w.absent(key, absent)
		return
	}
	w.text(key, q.String())
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
	if empty {
		w.absent(key, "{}")
		return
	}
	w.data[key] = compact(value)
}

// nodeAffinity is text in the message of upstream's code, so its JSON is quoted once more there.
func (w *writer) nodeAffinity(a *v1alpha1.NodeAffinity) {
	if a == nil {
		w.absent(keyNodeAffinity, "null")
		return
	}
	w.text(keyNodeAffinity, compact(map[string]any{"nodeAffinity": a}))
}

// compact is JSON with sorted keys. What is written here has no value that JSON cannot hold.
func compact(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("marshal %T: %v", value, err))
	}
	return string(data)
}

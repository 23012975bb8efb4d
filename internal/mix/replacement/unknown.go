// SPDX-License-Identifier: Apache-2.0

package replacement

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// revisionLabels name the revision that a pod was created from, as controllers of Kubernetes and of other projects set them.
var revisionLabels = []string{appsv1.ControllerRevisionHashLabelKey, appsv1.DefaultDeploymentUniqueLabelKey}

// OfUnknown returns the template of a controller of a kind that Kubernetes does not have: spec.template, if that is the
// template of a pod, and the labels of its pods and its status do not show an update in progress. During an update, such a kind
// may create the next pod from an older template, which is stored in a form of its own: by a partition, or one by one.
func OfUnknown(o *unstructured.Unstructured, pods []map[string]string) (Template, error) {
	t := Template{Owner: o.GetKind() + " " + o.GetName(), Field: "spec.template", maker: Unknown}
	raw, found, err := unstructured.NestedMap(o.Object, "spec", "template")
	if err != nil || !found {
		return t, fmt.Errorf("%s has no spec.template", t.Owner)
	}
	if containers, there, err := unstructured.NestedSlice(raw, "spec", "containers"); err != nil || !there || len(containers) == 0 {
		return t, fmt.Errorf("spec.template of %s is no template of a pod: it has no spec.containers", t.Owner)
	}
	t.Pod = &corev1.PodTemplateSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, t.Pod); err != nil {
		return t, fmt.Errorf("spec.template of %s is no template of a pod: %w", t.Owner, err)
	}
	if update := updating(o, pods); update != "" {
		return t, fmt.Errorf("%s may create the next pod from another template than its spec.template: %s", t.Owner, update)
	}
	return t, nil
}

// updating returns what shows an update in progress, "" if nothing does. Other differences between pods and template are not
// compared: admission adds to pods.
func updating(o *unstructured.Unstructured, pods []map[string]string) string {
	if observed, there, err := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); err == nil && there &&
		observed < o.GetGeneration() {
		return fmt.Sprintf("status.observedGeneration is %d, and metadata.generation is %d", observed, o.GetGeneration())
	}
	for _, key := range revisionLabels {
		revisions := revisionsOf(pods, key)
		if len(revisions) > 1 {
			return fmt.Sprintf("its pods have the values %s and %s of the label %s", revisions[0], revisions[1], key)
		}
	}
	current, _, _ := unstructured.NestedString(o.Object, "status", "currentRevision") // "" if it is something else
	update, _, _ := unstructured.NestedString(o.Object, "status", "updateRevision")
	hash := revisionsOf(pods, appsv1.ControllerRevisionHashLabelKey)
	switch {
	case update == "":
	case current != "" && current != update:
		return fmt.Sprintf("status.updateRevision is %s, and status.currentRevision is %s", update, current)
	case len(hash) == 1 && !sameRevision(update, hash[0]):
		return fmt.Sprintf("status.updateRevision is %s, and its pods have the value %s of the label %s",
			update, hash[0], appsv1.ControllerRevisionHashLabelKey)
	}
	return ""
}

// revisionsOf returns the values of a label, sorted. Pods without it are of no revision: some kinds label only some pods.
func revisionsOf(pods []map[string]string, key string) (values []string) {
	for _, labels := range pods {
		if value := labels[key]; value != "" {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// sameRevision reports whether two names are of one revision. The label of a pod may have the whole name or only its hash.
func sameRevision(a, b string) bool {
	return a == b || strings.HasSuffix(a, "-"+b) || strings.HasSuffix(b, "-"+a)
}

// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits/registry"
)

// Template is a workload whose pod template names a limit.
type Template struct {
	Workload v1alpha1.WorkloadReference
	// Limit is the name that it names.
	Limit string

	source string
}

// Templates are those of a cluster; the informers fill them. Templates that name no
// limit, which are most, take no memory. Safe for concurrent use.
type Templates struct {
	// Changed is called, without locks held, with the namespace of what changed.
	Changed func(namespace string)

	mu    sync.RWMutex
	byUID map[types.UID]Template
}

// NewTemplates returns none.
func NewTemplates(changed func(namespace string)) *Templates {
	return &Templates{Changed: changed, byUID: map[types.UID]Template{}}
}

// SetTemplate implements state.Templates.
func (t *Templates) SetTemplate(source string, owner metav1.Object, template *corev1.PodTemplateSpec) bool {
	next, kept := read(source, owner, template)
	if !kept {
		t.DeleteTemplate(source, owner.GetUID())
		return false
	}
	t.mu.Lock()
	before := t.byUID[owner.GetUID()]
	t.byUID[owner.GetUID()] = next
	t.mu.Unlock()
	if before != next {
		t.Changed(next.Workload.Namespace)
	}
	return true
}

// DeleteTemplate implements state.Templates.
func (t *Templates) DeleteTemplate(_ string, owner types.UID) {
	t.mu.Lock()
	before, known := t.byUID[owner]
	delete(t.byUID, owner)
	t.mu.Unlock()
	if known {
		t.Changed(before.Workload.Namespace)
	}
}

// RetainTemplates implements state.Templates.
func (t *Templates) RetainTemplates(source string, listed map[types.UID]bool) {
	var gone []types.UID
	t.mu.RLock()
	for uid, template := range t.byUID {
		if template.source == source && !listed[uid] {
			gone = append(gone, uid)
		}
	}
	t.mu.RUnlock()
	for _, uid := range gone {
		t.DeleteTemplate(source, uid)
	}
}

// In returns those of a namespace, in no order.
func (t *Templates) In(namespace string) (all []Template) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, template := range t.byUID {
		if template.Workload.Namespace == namespace {
			all = append(all, template)
		}
	}
	return all
}

// Namespaces returns where there are any.
func (t *Templates) Namespaces() []string {
	seen := sets.New[string]()
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, template := range t.byUID {
		seen.Insert(template.Workload.Namespace)
	}
	return sets.List(seen)
}

// kinds of the sources.
var kinds = map[string]string{
	"deployments": "Deployment", "replicasets": "ReplicaSet", "statefulsets": "StatefulSet",
	"daemonsets": "DaemonSet", "jobs": "Job", "cronjobs": "CronJob",
}

// read returns what is kept of a template, and whether anything is. A template
// that another of the watched kinds wrote counts there: an old ReplicaSet names
// what its Deployment once did. One below a kind of another owner's counts for that.
func read(source string, owner metav1.Object, template *corev1.PodTemplateSpec) (Template, bool) {
	if template == nil {
		return Template{}, false
	}
	name := registry.Named(&corev1.Pod{ObjectMeta: template.ObjectMeta})
	if name == "" {
		return Template{}, false
	}
	// Copies: the object, a whole page of a list maybe, must not be held by them.
	w := v1alpha1.WorkloadReference{
		Kind: kinds[source], Namespace: strings.Clone(owner.GetNamespace()),
		Name: strings.Clone(owner.GetName()),
	}
	if above := metav1.GetControllerOfNoCopy(owner); above != nil {
		if above.Kind == "Deployment" || above.Kind == "CronJob" {
			return Template{}, false
		}
		if rs, ok := owner.(*appsv1.ReplicaSet); ok && ptr.Deref(rs.Spec.Replicas, 1) == 0 {
			return Template{}, false // an old revision
		}
		w.Kind, w.Name = strings.Clone(above.Kind), strings.Clone(above.Name)
	}
	return Template{Workload: w, Limit: strings.Clone(name), source: source}, true
}

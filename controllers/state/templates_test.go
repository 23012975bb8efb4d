// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// told is the owners that have a template with a label.
type told map[string]map[types.UID]bool

func (k told) SetTemplate(source string, owner metav1.Object, template *corev1.PodTemplateSpec) bool {
	if k[source] == nil {
		k[source] = map[types.UID]bool{}
	}
	kept := template.Labels["kept"] != ""
	if delete(k[source], owner.GetUID()); kept {
		k[source][owner.GetUID()] = true
	}
	return kept
}

func (k told) DeleteTemplate(source string, owner types.UID) { delete(k[source], owner) }

func (k told) RetainTemplates(source string, listed map[types.UID]bool) {
	for uid := range k[source] {
		if !listed[uid] {
			delete(k[source], uid)
		}
	}
}

func withTemplates(t *testing.T) (*fixture, told) {
	t.Helper()
	f, all := newFixture(t), told{}
	var err error
	f.Informers, err = New(&rest.Config{Host: f.server.URL}, f.clusterState, func(time.Time) { f.failed++ }, WithTemplates(all))
	require.NoError(t, err)
	return f, all
}

func TestTemplatesArePassedOnFromListsAndWatches(t *testing.T) {
	f, all := withTemplates(t)
	const path = "/apis/apps/v1/replicasets"
	live := replicaSets(3, "live")
	live.Items[0].Spec.Template.Labels = map[string]string{"kept": "yes"}
	f.server.pages[path] = []runtime.Object{live}
	require.NoError(t, f.relist(t, "replicasets"))
	assert.Equal(t, map[types.UID]bool{"live": true}, all["replicasets"], "the cluster state has it stripped")
	assert.True(t, f.follows("live"))
	old := replicaSets(0, "a", "b") // the cluster state keeps none of an old revision
	for i := range old.Items {
		old.Items[i].Spec.Template.Labels = map[string]string{"kept": "yes"}
	}
	f.server.pages[path] = []runtime.Object{old}
	require.NoError(t, f.relist(t, "replicasets"))
	assert.Equal(t, map[types.UID]bool{"a": true, "b": true}, all["replicasets"])
	assert.False(t, f.follows("a"))

	// A list whose second page fails, and then one without b.
	only := replicaSets(0, "a")
	only.Items[0].Spec.Template.Labels = map[string]string{"kept": "yes"}
	f.server.pages[path] = []runtime.Object{old, old}
	require.Error(t, f.relistWithoutSecondPage(t, "replicasets", path))
	assert.Len(t, all["replicasets"], 2, "what failed changes nothing")
	f.server.pages[path] = []runtime.Object{only}
	require.NoError(t, f.relist(t, "replicasets"))
	assert.Equal(t, map[types.UID]bool{"a": true}, all["replicasets"])

	kept := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"kept": "yes"}}}
	for name, o := range map[string]metav1.Object{
		"deployments": &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{UID: "x"}, Spec: appsv1.DeploymentSpec{Template: kept}}, "statefulsets": &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{UID: "x"}, Spec: appsv1.StatefulSetSpec{Template: kept}},
		"daemonsets": &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{UID: "x"}, Spec: appsv1.DaemonSetSpec{Template: kept}}, "jobs": &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "x"}, Spec: batchv1.JobSpec{Template: kept}},
		"cronjobs": &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{UID: "x"}, Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: kept}}}},
	} {
		store := f.source(name).store
		require.NoError(t, store.Add(o))
		assert.True(t, all[name]["x"], name)
		require.NoError(t, store.Delete(o))
		assert.False(t, all[name]["x"], name)
	}
	assert.True(t, f.source("cronjobs").keep(&batchv1.CronJob{}) == nil, "nothing of it is kept")
}

// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
)

func podNamed(name string, changes ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func released(p *corev1.Pod) {
	p.Annotations = map[string]string{v1alpha1.ReleasedAnnotation: pods.Release{ReplicaSet: "rs", Group: "rs"}.Value(p.UID)}
	p.Spec.ActiveDeadlineSeconds = new(int64(3600))
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", UID: "rs"}}
}

func ownedBy(kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "o", UID: "o", Controller: new(true)}}
	}
}

// ofWeb has the pods of a mix that releases them.
func ofWeb(p *corev1.Pod) (string, bool) { return "mix web", p.Labels["app"] == "web" }

func web(p *corev1.Pod) {
	ownedBy("ReplicaSet")(p)
	p.Labels = map[string]string{"app": "web", "pod-template-hash": "1"}
}

func TestADrainEndsOnceTheReleasedReplicasAreGone(t *testing.T) {
	p := newProgress()
	replica, db, agent := podNamed("web-1", web), podNamed("db-0", ownedBy("StatefulSet")), podNamed("agent", ownedBy("DaemonSet"))
	assert.Empty(t, p.observe([]corev1.Pod{replica, db, agent}, ofWeb))
	assert.Equal(t, []string{"shop/db-0"}, p.left, "pods of the node itself stay")
	assert.False(t, p.done(), "however long the controller takes")
	assert.Equal(t, "1 replica was not released (shop/web-1 of mix web)", p.unfinished())

	free := podNamed("web-1", released)
	assert.Equal(t, []string{"pod shop/web-1 released: its replacement is being created"}, p.observe([]corev1.Pod{free, db, agent}, ofWeb))
	assert.Empty(t, p.observe([]corev1.Pod{free, db, agent}, ofWeb), "said once")
	assert.False(t, p.done(), "its replacement is not available yet")
	assert.Equal(t, "1 released replica is still there (shop/web-1)", p.unfinished())

	assert.Equal(t, []string{"pod shop/web-1 gone"}, p.observe([]corev1.Pod{db, agent}, ofWeb))
	assert.Equal(t, 1, p.gone)
	assert.True(t, p.done())
	assert.Equal(t, []string{"shop/db-0"}, p.left)
}

// A pod that its user marks would be waited for without end.
func TestAPodThatAUserMarksIsLeft(t *testing.T) {
	p := newProgress()
	marked := podNamed("db-0", released)
	marked.Spec.ActiveDeadlineSeconds = nil
	p.observe([]corev1.Pod{marked}, ofWeb)
	assert.True(t, p.done())
	assert.Equal(t, []string{"shop/db-0"}, p.left)
}

func TestAStatefulSetOfAMixIsLeft(t *testing.T) {
	p := newProgress()
	p.observe([]corev1.Pod{podNamed("web-0", web, ownedBy("StatefulSet"))}, ofWeb)
	assert.True(t, p.done())
	assert.Equal(t, []string{"shop/web-0"}, p.left)
}

func TestALineNamesFewPods(t *testing.T) {
	assert.Equal(t, "a, b", some([]string{"a", "b"}))
	assert.Equal(t, "a, b, c, d, e and 2 more", some([]string{"a", "b", "c", "d", "e", "f", "g"}))
}

// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
)

var began = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func podNamed(name string, changes ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func released(p *corev1.Pod) {
	p.Annotations = map[string]string{v1alpha1.ReleasedAnnotation: pods.Release{ReplicaSet: "rs", Group: "rs"}.Value(p.UID)}
}

func ownedBy(kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "o", UID: "o", Controller: new(true)}}
	}
}

func TestADrainEndsOnceTheReleasedReplicasAreGone(t *testing.T) {
	p := newProgress(began)
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	web, db, agent := podNamed("web-1", ownedBy("ReplicaSet")), podNamed("db-0", ownedBy("StatefulSet")), podNamed("agent", ownedBy("DaemonSet"))
	assert.Empty(t, p.observe([]corev1.Pod{web, db, agent}, at(0)))
	assert.Equal(t, []string{"shop/db-0", "shop/web-1"}, p.left, "pods of the node itself stay")
	assert.False(t, p.done(at(9), quiet), "the controller may not have seen the mark yet")

	free := podNamed("web-1", released)
	assert.Equal(t, []string{"pod shop/web-1 released: its replacement is being created"}, p.observe([]corev1.Pod{free, db, agent}, at(9)))
	assert.Empty(t, p.observe([]corev1.Pod{free, db, agent}, at(60)), "said once")
	assert.False(t, p.done(at(60), quiet), "its replacement is not available yet")
	assert.Equal(t, "1 released replica is still there (shop/web-1)", p.unfinished())

	assert.Equal(t, []string{"pod shop/web-1 gone"}, p.observe([]corev1.Pod{db, agent}, at(61)))
	assert.Equal(t, 1, p.gone)
	assert.False(t, p.done(at(62), quiet), "others may be released")
	assert.True(t, p.done(at(71), quiet))
	assert.Equal(t, []string{"shop/db-0"}, p.left)

	assert.Empty(t, p.observe([]corev1.Pod{agent}, at(72)))
	assert.True(t, p.done(at(72), quiet), "nothing is left to release")
}

func TestALineNamesFewPods(t *testing.T) {
	assert.Equal(t, "a, b", some([]string{"a", "b"}))
	assert.Equal(t, "a, b, c, d, e and 2 more", some([]string{"a", "b", "c", "d", "e", "f", "g"}))
}

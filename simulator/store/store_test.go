// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
)

// Who waits for a change would miss a deletion that is none.
func TestEachChangeHasAVersion(t *testing.T) {
	s := New(testingclock.NewFakePassiveClock(time.Unix(0, 0)))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}}
	for _, change := range []func(){
		func() { s.Create(pod) }, func() { s.Update(pod.DeepCopy()) }, func() { s.Delete(pod) },
	} {
		version, changes := s.Version(), s.Changes()
		change()
		assert.NotEqual(t, version, s.Version())
		assert.Equal(t, changes+1, s.Changes())
	}
}

// A list that was read before a change is not that after it.
func TestAListHasEachChange(t *testing.T) {
	s := New(testingclock.NewFakePassiveClock(time.Unix(0, 0)))
	names := func(namespace string) (list []string) {
		for _, pod := range List[*corev1.Pod](s, namespace) {
			list = append(list, pod.Name)
		}
		return list
	}
	b := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "b"}}
	s.Create(b)
	assert.Equal(t, []string{"b"}, names("shop"))
	assert.Equal(t, []string{"b"}, names(""))
	s.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}})
	assert.Equal(t, []string{"a", "b"}, names("shop"))
	assert.Equal(t, []string{"a", "b"}, names(""))
	s.Delete(b)
	assert.Equal(t, []string{"a"}, names("shop"))
	assert.Equal(t, []string{"a"}, names(""))
}

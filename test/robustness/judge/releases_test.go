// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/test/robustness/history"
)

func TestReleasesCountsReadyAndLivePods(t *testing.T) {
	pod := func(name string, isReady, released bool) history.Change {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"}}}
		if isReady {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		if released {
			p.Annotations = map[string]string{v1alpha1.ReleasedAnnotation: pods.Release{ReplicaSet: "rs", Group: "rs"}.Value(p.UID)}
		}
		return history.Change{Key: "/registry/pods/shop/" + name, Pod: p}
	}
	begin := []history.Change{pod("a", true, false), pod("b", true, false)}
	gone := history.Change{Key: "/registry/pods/shop/a"}
	ends := pod("a", true, true)
	ends.Pod.DeletionTimestamp = &metav1.Time{}
	other := pod("z", true, false)
	other.Pod.Labels = nil
	for name, c := range map[string]struct {
		after              []history.Change
		fewest, most, left int
	}{
		"as promised":           {[]history.Change{pod("a", true, true), pod("c", false, false), pod("c", true, false), ends, gone, other}, 2, 3, 0},
		"evicted too early":     {[]history.Change{pod("a", true, true), pod("c", false, false), ends, gone, pod("c", true, false)}, 1, 3, 0},
		"two at a time":         {[]history.Change{pod("a", true, true), pod("b", true, true), pod("c", true, false), pod("d", true, false)}, 2, 4, 2},
		"one is left":           {[]history.Change{pod("a", true, true), pod("c", true, false)}, 2, 3, 1},
		"it is not Ready again": {[]history.Change{pod("a", false, false)}, 1, 2, 0},
	} {
		fewest, most, left := Releases(&history.History{Changes: append(begin[:2:2], c.after...)}, "web", 2)
		assert.Equal(t, [3]int{c.fewest, c.most, c.left}, [3]int{fewest, most, left}, name)
	}
}

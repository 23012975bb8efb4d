// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
)

func TestAStandInHasNoResourceVersion(t *testing.T) {
	label := map[string]string{v1alpha1.PlaceholderLabel: "reservation"}
	for name, tc := range map[string]struct {
		meta           metav1.ObjectMeta
		holds, created bool
	}{
		"the stand-in of a Reservation":    {meta: metav1.ObjectMeta{Labels: label}, holds: true},
		"a pod of a user with its label":   {meta: metav1.ObjectMeta{Labels: label, ResourceVersion: "1"}, holds: true, created: true},
		"a pod that is not in a cache yet": {created: true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: tc.meta}
			assert.Equal(t, tc.holds, pods.IsPlaceholder(pod))
			assert.Equal(t, tc.created, pods.Created(pod))
		})
	}
}

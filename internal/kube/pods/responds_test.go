// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
)

func TestWhoRespondsBesideBerth(t *testing.T) {
	p := &corev1.Pod{}
	assert.False(t, pods.Responds(p))
	p.Spec.EvictionResponders = []corev1.EvictionResponder{{Name: v1alpha1.EvictionResponder}}
	assert.False(t, pods.Responds(p))
	p.Spec.EvictionResponders = append(p.Spec.EvictionResponders, corev1.EvictionResponder{Name: "example.com/operator"})
	assert.True(t, pods.Responds(p))
}

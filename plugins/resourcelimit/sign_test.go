// SPDX-License-Identifier: Apache-2.0

package resourcelimit

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// A signature has the scheduler try a pod on the node that came second for the pod before it.
func TestPodsWithASizeAreNotSigned(t *testing.T) {
	f := newFixture(t, defaultArgs())
	f.set(limit("sizes", "small", cpu("2")))
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want fwk.Code
	}{
		"with a size":                     {pod: pod("a", "small"), want: fwk.Unschedulable},
		"with a size that does not exist": {pod: pod("b", "medium"), want: fwk.Unschedulable},
		"without a size":                  {pod: pod("c", ""), want: fwk.Success},
	} {
		t.Run(name, func(t *testing.T) {
			fragments, status := f.plugin.SignPod(t.Context(), c.pod)
			assert.Equal(t, c.want, status.Code(), status.Message())
			assert.Empty(t, fragments)
		})
	}
}

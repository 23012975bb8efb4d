// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/test/plugintest"
)

// A signature has the scheduler try a pod on the node that came second for the pod before it.
func TestPodsWithAMixAreNotSigned(t *testing.T) {
	governed := plugintest.Pod("web", 0)
	other := governed.DeepCopy()
	other.Name, other.UID, other.Labels = "other", "other", nil
	f := webFixture(t, 70, governed, other)

	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want fwk.Code
	}{
		"with a mix":    {pod: governed, want: fwk.Unschedulable},
		"without a mix": {pod: other, want: fwk.Success},
	} {
		t.Run(name, func(t *testing.T) {
			fragments, status := f.plugin.SignPod(t.Context(), c.pod)
			assert.Equal(t, c.want, status.Code(), status.Message())
			assert.Empty(t, fragments)
		})
	}
}

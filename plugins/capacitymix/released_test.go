// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/test/plugintest"
)

// The ReplicaSet creates the replacement as soon as it sees the release.
func TestTheReplacementOfAReleasedReplicaTakesItsSlot(t *testing.T) {
	all := []*corev1.Pod{plugintest.Pod("web", 0), plugintest.Pod("web", 1), plugintest.Pod("web", 2), plugintest.Pod("web", 3)}
	f := webFixture(t, 50, all...)
	for _, p := range all[:2] {
		f.place(t, p)
	}
	old := all[0]
	released := old.DeepCopy()
	released.OwnerReferences = nil
	released.Annotations = map[string]string{v1alpha1.ReleasedAnnotation: pods.Release{ReplicaSet: "rs", Group: "rs"}.Value(released.UID)}
	f.cluster.SetPods(t, released)
	f.plugin.PodHandler().OnUpdate(old, released)
	slot, on := f.place(t, all[2])
	assert.Equal(t, 0, slot)
	assert.Equal(t, "on-demand", fmt.Sprint(on))
	f.deletePod(released)
	slot, _ = f.place(t, all[3])
	assert.Equal(t, 2, slot, "its end frees nothing")
}

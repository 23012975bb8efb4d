// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
)

func TestTheSampleRunsAsItsCommentsSay(t *testing.T) {
	s := share(t)
	s.Tool(cluster.Kubectl, "--namespace", s.Namespace, "apply", "-f", "manifests/samples/environment.yaml")
	e := s.comes("shop", v1alpha1.EnvironmentRunning)
	on := map[string]int{}
	for _, p := range s.pods(e, "backend") {
		on[s.runsOn(&p)]++
	}
	assert.Equal(t, map[string]int{"spot": 2, "on-demand": 2}, on)
	for _, p := range s.pods(e, "database") {
		assert.Equal(t, "on-demand", s.runsOn(&p))
	}
	assert.Equal(t, []string{"database-data"}, s.names(e, &corev1.PersistentVolumeClaimList{}))
	assert.Equal(t, []string{"frontend"}, s.names(e, &networkingv1.IngressList{}))
}

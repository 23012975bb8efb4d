// SPDX-License-Identifier: Apache-2.0

package live

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestTheConfigurationIsTheMountedOne(t *testing.T) {
	b, err := os.ReadFile("../../manifests/scheduler/deployment.yaml")
	require.NoError(t, err)
	var shipped appsv1.Deployment
	require.NoError(t, yaml.Unmarshal(b, &shipped))
	for name, c := range map[string]struct {
		change    func(*corev1.PodSpec)
		name, key string
	}{
		"as shipped":          {func(*corev1.PodSpec) {}, "berth-scheduler-config", "second-scheduler.yaml"},
		"renamed":             {func(p *corev1.PodSpec) { p.Volumes[0].ConfigMap.Name = "berth-scheduler-config-x7f" }, "berth-scheduler-config-x7f", "second-scheduler.yaml"},
		"another profile":     {args("--v=2", "--config", "/etc/berth/scheduler/replace-default.yaml"), "berth-scheduler-config", "replace-default.yaml"},
		"a file of the image": {args("--config=/etc/kubernetes/scheduler.yaml"), "", ""},
		"no file":             {args("--v=2"), "", ""},
		"from no ConfigMap":   {func(p *corev1.PodSpec) { p.Volumes[0].ConfigMap = nil }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := shipped.Spec.Template.Spec.DeepCopy()
			c.change(pod)
			name, key := mountedConfig(pod)
			assert.Equal(t, c.name, name)
			assert.Equal(t, c.key, key)
		})
	}
}

func args(list ...string) func(*corev1.PodSpec) {
	return func(p *corev1.PodSpec) { p.Containers[0].Args = list }
}

// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// A record is Available when the kubelet has its function's readiness probe succeed. A container that fails its liveness probe is
// restarted.
func TestTheProbesOfAFunction(t *testing.T) {
	w := testenv.New(t)
	// The chart installs the templates with its second release.
	shipped, err := os.ReadFile(testenv.Path("manifests/templates/k8s-deployment.yaml"))
	require.NoError(t, err)
	template := &v1alpha1.DeploymentTemplate{}
	require.NoError(t, yaml.UnmarshalStrict(shipped, template))
	w.Create(template)
	r := builders.DeploymentRecord("cart", "add")
	r.Spec.TemplateHint = template.Name
	f := &r.Spec.DeploymentUnit.Functions[0]
	f.Image, f.Port, f.Config = "example.com/app:1", 8080, map[string]v1alpha1.ConfigValue{"UNREADY": "true"}
	f.ReadinessProbe = &v1alpha1.FunctionProbe{Path: "/ready", PeriodSeconds: 1}
	f.LivenessProbe = &v1alpha1.FunctionProbe{Path: "/ready", PeriodSeconds: 2, FailureThreshold: 2}
	w.Create(r)
	pods := func() []corev1.Pod { return w.Pods(client.MatchingLabels{"oaas.io/owner": r.Name}) }
	w.Within(startTimeout, "the kubelet restarts a container that fails its liveness probe", func() (bool, string) {
		for _, p := range pods() {
			for _, s := range p.Status.ContainerStatuses {
				return s.RestartCount > 0, fmt.Sprintf("%+v", s)
			}
		}
		return false, "no container"
	})
	available := func(r *v1alpha1.DeploymentRecord) bool {
		return meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionAvailable)
	}
	assert.False(t, available(testenv.Read(w, r.Name, r)), "no replica is ready")

	testenv.Patch(w, r, func(r *v1alpha1.DeploymentRecord) { r.Spec.DeploymentUnit.Functions[0].Config = nil })
	patient := w.UpTo(startTimeout)
	testenv.WaitFor(patient, r.Name, "it is available", available)
	for _, p := range testenv.Where(pods(), testenv.Ready) {
		assert.Zero(t, p.Status.ContainerStatuses[0].RestartCount)
	}
	body, err := w.Kube.CoreV1().Services(w.Namespace).ProxyGet("http", r.Name, "80", "/", nil).DoRaw(w.Ctx)
	require.NoError(t, err, "its Service has endpoints")
	assert.Contains(t, string(body), r.Name)
}

// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

// A template brings its own add-ons, a record requests them with parameters, and what is not offered is refused by name.
func TestATemplateBringsItsAddons(t *testing.T) {
	s := share(t)
	s.Tool(cluster.Kubectl, "--namespace", s.Namespace, "apply", "-f", "manifests/samples/record-with-addon.yaml")
	is := func(phase v1alpha1.DeploymentPhase) *v1alpha1.DeploymentRecord {
		t.Helper()
		return testenv.WaitFor(s.World, "orders", string(phase), func(r *v1alpha1.DeploymentRecord) bool {
			return r.Status.ObservedGeneration == r.Generation && r.Status.Phase == phase
		})
	}
	r := is(v1alpha1.PhaseAvailable)
	assert.Equal(t, []v1alpha1.AddonStatus{{Name: "redis", Ready: true}}, r.Status.Addons)
	assert.Equal(t, []string{"orders", "orders-redis"}, s.deployments())
	redis := s.deployment("orders-redis").Spec.Template
	assert.Equal(t, "128Mi", redis.Spec.Containers[0].Resources.Limits.Memory().String(), "of the record")
	assert.Equal(t, []string{"--maxmemory-policy", "allkeys-lru", "--databases", "16", "--save", ""}, redis.Spec.Containers[0].Args)
	assert.Equal(t, "berth-scheduler", redis.Spec.SchedulerName)
	assert.Contains(t, s.deployment("orders").Spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: "ADDON_REDIS", Value: "orders-redis"})
	mix := s.Mix("orders-redis")
	assert.Zero(t, mix.Spec.SpotPercent)
	assert.Equal(t, int32(1), mix.Spec.MinOnDemand)

	change := func(change func(*v1alpha1.DeploymentRecord)) { testenv.Patch(s.World, r, change) }
	change(func(r *v1alpha1.DeploymentRecord) { r.Spec.AddonConfigs[0].Parameters["databases"] = "65" })
	c := condition(is(v1alpha1.PhaseDegraded), v1alpha1.ConditionDegraded)
	assert.Equal(t, v1alpha1.ReasonInvalidAddon, c.Reason)
	assert.Contains(t, c.Message, `spec.addonConfigs[redis].parameters[databases]: Invalid value: "65": must be at most 64`)
	require.Len(t, s.deployments(), 2, "what runs stays")
	change(func(r *v1alpha1.DeploymentRecord) { r.Spec.AddonConfigs[0].Parameters["databases"] = "4" })
	is(v1alpha1.PhaseAvailable)
	assert.Equal(t, "4", s.deployment("orders-redis").Spec.Template.Spec.Containers[0].Args[3])

	change(func(r *v1alpha1.DeploymentRecord) { r.Spec.Addons = &[]v1alpha1.Addon{"queue"} })
	c = condition(is(v1alpha1.PhaseDegraded), v1alpha1.ConditionDegraded)
	assert.Equal(t, v1alpha1.ReasonUnknownAddon, c.Reason)
	assert.Contains(t, c.Message, `supported values: "odgm", "redis"`)

	change(func(r *v1alpha1.DeploymentRecord) { r.Spec.Addons, r.Spec.AddonConfigs = &[]v1alpha1.Addon{}, nil })
	is(v1alpha1.PhaseAvailable)
	assert.Equal(t, []string{"orders"}, s.deployments(), "what is no longer requested is removed")
}

// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

func policy(p v1alpha1.EnvironmentRestartPolicy) func(*Input) {
	return specOf(backend(func(c *v1alpha1.EnvironmentContainer) { c.RestartPolicy = p }))
}

// job is the Job that the backend is.
func job(t *testing.T, in *Input) *batchv1.Job {
	t.Helper()
	wellRendered(t, in)
	list := of[*batchv1.Job](Render(in))
	require.Len(t, list, 1)
	return list[0]
}

func TestRestartPolicies(t *testing.T) {
	for _, p := range []v1alpha1.EnvironmentRestartPolicy{"", v1alpha1.RestartAlways, v1alpha1.RestartUnlessStopped} {
		list := Render(input(t, policy(p)))
		assert.Empty(t, of[*batchv1.Job](list), p)
		assert.Empty(t, one[*appsv1.Deployment](t, list, stack.Backend).Spec.Template.Spec.RestartPolicy, "that of a Deployment is Always")
	}
	for p, want := range map[v1alpha1.EnvironmentRestartPolicy]struct {
		restart corev1.RestartPolicy
		tries   int32
	}{
		v1alpha1.RestartNo: {corev1.RestartPolicyNever, 0}, v1alpha1.RestartOnFailure: {corev1.RestartPolicyOnFailure, 1_000_000},
	} {
		in := input(t, policy(p))
		j := job(t, in)
		assert.Regexp(t, `^backend-[0-9a-f]{8}$`, j.Name)
		assert.Equal(t, want.restart, j.Spec.Template.Spec.RestartPolicy)
		assert.Equal(t, want.tries, *j.Spec.BackoffLimit)
		assert.Equal(t, []int32{1, 1}, []int32{*j.Spec.Parallelism, *j.Spec.Completions})
		assert.False(t, *j.Spec.Suspend)
		assert.NotContains(t, names[*appsv1.Deployment](Render(in)), stack.Backend)
	}
}

// A Job is another one only when it has to run again. What cannot be changed of a Job makes it another one.
func TestTheNameOfAJob(t *testing.T) {
	name := job(t, input(t, policy(v1alpha1.RestartNo))).Name
	same := map[string]func(*Input){
		"a stage opens": func(in *Input) { in.OpenStages = 0 },
		"it stops":      func(in *Input) { in.Environment.Spec.RunPolicy, in.OpenStages = v1alpha1.RunPolicyStopped, 0 },
		"it is forced to stop": func(in *Input) {
			in.Environment.Spec.RunPolicy, in.Environment.Spec.ForceStop = v1alpha1.RunPolicyStopped, true
		},
		"another component is changed": func(in *Input) { in.Environment.Spec.Stack.Frontend.Container.Image = "x" },
		"it is scaled to nothing":      func(in *Input) { in.Environment.Spec.Stack.Backend.Replicas = new(int32(0)) },
	}
	for what, change := range same {
		assert.Equal(t, name, job(t, input(t, policy(v1alpha1.RestartNo), change)).Name, what)
	}
	other := map[string]func(*Input){
		"it is changed":         specOf(backend(func(c *v1alpha1.EnvironmentContainer) { c.Image = "node:24" })),
		"it is restarted":       func(in *Input) { in.Restarts = map[string]string{stack.Backend: "2026-01-01T00:00:00Z"} },
		"its credentials are":   func(in *Input) { in.Credentials.Version = "19" },
		"it is scaled":          func(in *Input) { in.Environment.Spec.Stack.Backend.Replicas = new(int32(2)) },
		"it is to end well now": policy(v1alpha1.RestartOnFailure),
	}
	seen := map[string]string{name: "as it was"}
	for what, change := range other {
		n := job(t, input(t, policy(v1alpha1.RestartNo), change)).Name
		assert.Empty(t, seen[n], "%s and %s", what, seen[n])
		seen[n] = what
	}
}

// A Job waits for its stage and ends with it by being suspended.
func TestAJobIsSuspended(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*Input)
		want   bool
	}{
		"its stage is open":     {func(in *Input) { in.OpenStages = 2 }, false},
		"its stage is not open": {func(in *Input) { in.OpenStages = 1 }, true},
		"it is to stop, not yet": {func(in *Input) {
			in.Environment.Spec.RunPolicy, in.OpenStages = v1alpha1.RunPolicyStopped, 3
		}, false},
		"it is to stop": {func(in *Input) {
			in.Environment.Spec.RunPolicy, in.OpenStages = v1alpha1.RunPolicyStopped, 2
		}, true},
		"it has no replicas": {func(in *Input) { in.Environment.Spec.Stack.Backend.Replicas = new(int32(0)) }, true},
	} {
		j := job(t, input(t, policy(v1alpha1.RestartOnFailure), c.change))
		assert.Equal(t, c.want, *j.Spec.Suspend, what)
		assert.Empty(t, j.Spec.Template.Spec.SchedulingGates, "its template cannot be changed")
	}
}

// Stopped, components go from the last stage on; by force, all at once. Everything but the pods stays.
func TestRenderStopped(t *testing.T) {
	for name, c := range map[string]struct {
		open  int32
		force bool
		want  map[string]int32
	}{
		"the frontend first":   {3, false, map[string]int32{stack.Database: 1, "redis-cache": 1, stack.Backend: 1, stack.Frontend: 0}},
		"then the backend":     {2, false, map[string]int32{stack.Database: 1, "redis-cache": 1, stack.Backend: 0, stack.Frontend: 0}},
		"the database at last": {0, false, map[string]int32{stack.Database: 0, "redis-cache": 0, stack.Backend: 0, stack.Frontend: 0}},
		"by force":             {3, true, map[string]int32{stack.Database: 0, "redis-cache": 0, stack.Backend: 0, stack.Frontend: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(t, func(in *Input) {
				in.Environment.Spec.RunPolicy, in.Environment.Spec.ForceStop, in.OpenStages = v1alpha1.RunPolicyStopped, c.force, c.open
			})
			list := Render(in)
			got := map[string]int32{}
			for _, d := range of[*appsv1.Deployment](list) {
				got[d.Name] = *d.Spec.Replicas
			}
			got[stack.Database] = *one[*appsv1.StatefulSet](t, list, stack.Database).Spec.Replicas
			assert.Equal(t, c.want, got)
			running := Render(input(t))
			assert.Len(t, list, len(running))
			for component, template := range templatesOf(list) {
				assert.Equal(t, templatesOf(running)[component], template, "a stop is no change of a pod: it finds its revision again")
			}
		})
	}
}

// A new pod is ready before an old one goes, but where there cannot be two.
func TestStrategies(t *testing.T) {
	strategy := func(change ...func(*Input)) appsv1.DeploymentStrategy {
		return one[*appsv1.Deployment](t, Render(input(t, change...)), stack.Backend).Spec.Strategy
	}
	rolls := func(s appsv1.DeploymentStrategy) string {
		return string(s.Type) + " " + s.RollingUpdate.MaxSurge.String() + " " + s.RollingUpdate.MaxUnavailable.String()
	}
	onNode := func(in *Input) { in.Settings.Exposure = v1alpha1.ExposureHostPort }
	volume := func(v v1alpha1.EnvironmentVolume) func(*Input) {
		return specOf(backend(func(c *v1alpha1.EnvironmentContainer) { c.Volumes = []v1alpha1.EnvironmentVolume{v} }))
	}
	assert.Equal(t, "RollingUpdate 1 0", rolls(strategy()))
	assert.Equal(t, "RollingUpdate 0 1", rolls(strategy(onNode)), "two pods cannot have a port of one node")
	assert.Equal(t, "RollingUpdate 1 0", rolls(strategy(onNode, specOf(backend(func(c *v1alpha1.EnvironmentContainer) { c.Ports = nil })))))
	assert.Equal(t, appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}, strategy(volume(v1alpha1.EnvironmentVolume{MountPath: "/a"})))
	assert.Equal(t, "RollingUpdate 1 0", rolls(strategy(
		volume(v1alpha1.EnvironmentVolume{MountPath: "/a", HostPath: "/srv/a"}), func(in *Input) { in.Settings.HostPaths = []string{"/srv"} },
	)))
}

func TestSecureDefaults(t *testing.T) {
	for component, template := range templatesOf(Render(input(t, policy(v1alpha1.RestartNo)))) {
		spec := template.Spec
		assert.False(t, *spec.AutomountServiceAccountToken, component)
		assert.False(t, *spec.EnableServiceLinks, component)
		assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, spec.SecurityContext.SeccompProfile.Type, component)
		assert.Nil(t, spec.SecurityContext.RunAsNonRoot, "images may start as root, unless it is forbidden")
		c := spec.Containers[0].SecurityContext
		assert.False(t, *c.AllowPrivilegeEscalation, component)
		assert.Equal(t, []corev1.Capability{"NET_RAW"}, c.Capabilities.Drop, component)
		assert.Nil(t, c.Privileged, component)
		assert.False(t, spec.HostNetwork || spec.HostPID || spec.HostIPC, component)
	}
	for component, template := range templatesOf(Render(input(t, func(in *Input) { in.Settings.RunAsNonRoot = true }))) {
		assert.True(t, *template.Spec.SecurityContext.RunAsNonRoot, component)
	}
}

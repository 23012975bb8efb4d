// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/environments/validation"
	"berth.dev/berth/test/generators"
)

// Whatever a valid spec is, what is rendered holds together. See wellRendered.
func TestRenderedObjectsAreConsistent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { wellRendered(t, drawInput(t)) })
}

// The same is rendered each time, in the same order: nothing is applied again for nothing. What it is rendered from stays.
func TestRenderIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		before := text(t, in)
		first := text(t, Render(in))
		assert.Equal(t, first, text(t, Render(in)))
		assert.Equal(t, before, text(t, in))
	})
}

// What is rendered changes with the stages that are open only in replicas and gates: a stage that opens makes no
// object, and rolls none that runs.
func TestStagesChangeNoObjects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		list := func(open int32) (out []string) {
			in.OpenStages = open
			for _, o := range Render(in) {
				out = append(out, fmt.Sprintf("%T %s", o, o.(object).GetName()))
			}
			return out
		}
		want := list(stack.Stages)
		for open := range stack.Stages {
			assert.Equal(t, want, list(open), "Jobs too, whose pods would be recreated")
		}
	})
}

// wellRendered fails unless every object has the environment's labels and a name that is a DNS label and its own, every
// mount a volume and every claim an object, every key of a Secret is there, no secret is anywhere else, and every Service
// finds pods.
func wellRendered(t assert.TestingT, in *Input) {
	list := Render(in)
	secrets, claims, seen := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, r := range list {
		o := r.(object)
		kind := r.GetObjectKind().GroupVersionKind().Kind
		assert.NotEmpty(t, kind, "%T", o)
		assert.True(t, slices.ContainsFunc(slices.Concat(Kinds(), OptionalKinds()), func(k runtime.Object) bool {
			is := k.GetObjectKind().GroupVersionKind() // of what has no type
			return reflect.TypeOf(k) == reflect.TypeOf(r) && (is.Empty() || is == r.GetObjectKind().GroupVersionKind())
		}), "%T is not in Kinds", r)
		assert.False(t, seen[kind+" "+o.GetName()], "%s %s is there twice", kind, o.GetName())
		seen[kind+" "+o.GetName()] = true
		assert.Empty(t, utilvalidation.IsDNS1123Label(o.GetName()), "%s %s", kind, o.GetName())
		assert.Equal(t, in.Namespace, o.GetNamespace())
		labelled(t, in, o.GetLabels())
		switch o := r.(type) {
		case *corev1.Secret:
			for key := range o.Data {
				secrets[o.Name+"/"+key] = true
				assert.Empty(t, utilvalidation.IsConfigMapKey(key))
			}
		case *corev1.PersistentVolumeClaim:
			claims[o.Name] = true
		}
	}
	components := stack.Components(&in.Environment.Spec.Stack)
	templates := templatesOf(list)
	assert.Len(t, templates, len(components))
	for i := range components {
		c := &components[i]
		template, is := templates[c.Name]
		if !assert.True(t, is, "%s runs", c.Name) {
			continue
		}
		labelled(t, in, template.Labels)
		wellFormed(t, template, secrets, claims)
		for _, s := range of[*corev1.Service](list) {
			if s.Labels[v1alpha1.EnvironmentComponentLabel] != c.Name {
				continue
			}
			for key, value := range s.Spec.Selector {
				assert.Equal(t, value, template.Labels[key], "Service %s finds its pods", s.Name)
			}
			assert.Empty(t, utilvalidation.IsDNS1035Label(s.Name))
		}
		assert.True(t, seen["Service "+c.Name], "%s answers by its name", c.Name)
	}
	for _, o := range list {
		if _, is := o.(*corev1.Secret); !is {
			hidden(t, o, in)
		}
	}
}

func labelled(t assert.TestingT, in *Input, labels map[string]string) {
	assert.Equal(t, in.Environment.Name, labels[v1alpha1.EnvironmentLabel])
	assert.Equal(t, in.Environment.Namespace, labels[v1alpha1.EnvironmentNamespaceLabel])
	assert.Equal(t, ManagedComponent, labels[v1alpha1.ComponentLabel])
	for _, value := range labels {
		assert.Empty(t, utilvalidation.IsValidLabelValue(value))
	}
}

// templatesOf are the pod templates by the component.
func templatesOf(list []runtime.Object) map[string]*corev1.PodTemplateSpec {
	out := map[string]*corev1.PodTemplateSpec{}
	for _, o := range list {
		switch o := o.(type) {
		case *appsv1.Deployment:
			out[o.Labels[v1alpha1.EnvironmentComponentLabel]] = &o.Spec.Template
		case *appsv1.StatefulSet:
			out[o.Labels[v1alpha1.EnvironmentComponentLabel]] = &o.Spec.Template
		case *batchv1.Job:
			out[o.Labels[v1alpha1.EnvironmentComponentLabel]] = &o.Spec.Template
		}
	}
	return out
}

func wellFormed(t assert.TestingT, template *corev1.PodTemplateSpec, secrets, claims map[string]bool) {
	volumes := map[string]bool{}
	for i := range template.Spec.Volumes {
		v := &template.Spec.Volumes[i]
		assert.False(t, volumes[v.Name], "volume %s is there twice", v.Name)
		volumes[v.Name] = true
		assert.Empty(t, utilvalidation.IsDNS1123Label(v.Name))
		if v.PersistentVolumeClaim != nil {
			assert.True(t, claims[v.PersistentVolumeClaim.ClaimName], "claim %s", v.PersistentVolumeClaim.ClaimName)
		}
	}
	c := &template.Spec.Containers[0]
	assert.Empty(t, utilvalidation.IsDNS1123Label(c.Name))
	assert.Len(t, c.VolumeMounts, len(volumes), "no volume for nothing")
	paths, variables, ports := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, m := range c.VolumeMounts {
		assert.True(t, volumes[m.Name], "mount %s has a volume", m.Name)
		assert.False(t, paths[m.MountPath], "two volumes at %s", m.MountPath)
		paths[m.MountPath] = true
	}
	for _, v := range c.Env {
		assert.False(t, variables[v.Name], "variable %s is there twice", v.Name)
		variables[v.Name] = true
		if v.ValueFrom != nil {
			assert.True(t, secrets[v.ValueFrom.SecretKeyRef.Name+"/"+v.ValueFrom.SecretKeyRef.Key], "key of %s", v.Name)
		}
	}
	for _, p := range c.Ports {
		assert.Empty(t, utilvalidation.IsValidPortName(p.Name))
		assert.False(t, ports[p.Name])
		ports[p.Name] = true
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe != nil {
			if probe.Exec != nil {
				assert.NotEmpty(t, probe.Exec.Command)
			}
			assert.True(t, probe.PeriodSeconds > 0 && probe.TimeoutSeconds > 0 && probe.FailureThreshold > 0, "%v", probe)
		}
	}
	if grace := template.Spec.TerminationGracePeriodSeconds; grace != nil && c.Lifecycle != nil {
		assert.LessOrEqual(t, c.Lifecycle.PreStop.Sleep.Seconds, *grace, "the API server refuses a longer one")
	}
	assert.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
	assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, template.Spec.SecurityContext.SeccompProfile.Type)
}

// hidden fails if a secret is in an object, as it is or in one of its usual disguises.
func hidden(t assert.TestingT, o runtime.Object, in *Input) {
	content, err := json.Marshal(o)
	assert.NoError(t, err)
	for _, secret := range []string{in.Credentials.Password, in.Credentials.ConnectionString, theKey} {
		if secret != "" {
			assert.NotContains(t, string(content), secret)
			assert.NotContains(t, string(content), base64.StdEncoding.EncodeToString([]byte(secret)))
		}
	}
}

func pick[T any](t *rapid.T, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(t, label)
}

func maybe(t *rapid.T, label string) bool { return rapid.Bool().Draw(t, label) }

// drawSpec is any valid spec, with few names, so that they meet.
func drawSpec(t *rapid.T) *v1alpha1.EnvironmentSpec {
	spec := &v1alpha1.EnvironmentSpec{
		RunPolicy: pick(t, "run", "", v1alpha1.RunPolicyRunning, v1alpha1.RunPolicyStopped),
		ForceStop: maybe(t, "force"),
	}
	if maybe(t, "restart") {
		at := metav1.NewTime(time.Unix(1_700_000_000, 0))
		spec.RestartedAt = &at
	}
	if maybe(t, "network") {
		spec.Network = &v1alpha1.EnvironmentNetwork{Isolated: maybe(t, "isolated")}
		if maybe(t, "egress") {
			spec.Network.Egress = &v1alpha1.EnvironmentEgress{Networks: pick(t, "networks", nil, []string{"10.0.0.0/8"})}
		}
	}
	if maybe(t, "placement") {
		spec.Placement = &v1alpha1.EnvironmentPlacement{SpotPercent: generators.Count(t, "spot", 100), MinOnDemand: generators.Count(t, "least", 1000), DatabaseOnSpot: maybe(t, "database on spot")}
	}
	for len(stack.Components(&spec.Stack)) == 0 {
		spec.Stack = generators.Stack(t)
	}
	if len(validation.Spec(spec)) > 0 { // two components that would make one object
		t.Skip("clash")
	}
	return spec
}

// drawInput is what any environment is rendered from.
func drawInput(t *rapid.T) *Input {
	return input(t, func(in *Input) {
		in.Environment.Spec = *drawSpec(t)
		in.Own = maybe(t, "own")
		in.OpenStages = rapid.Int32Range(0, stack.Stages).Draw(t, "open")
		in.Settings.Exposure = pick(t, "exposure", v1alpha1.ExposureHostPort, v1alpha1.ExposureLoadBalancer, v1alpha1.ExposureNodePort, v1alpha1.ExposureNone)
		in.Settings.SchedulerName = pick(t, "scheduler", "", "berth-scheduler")
		in.Settings.HostPaths = pick(t, "host paths", nil, []string{"/srv/allowed"}, []string{"/"})
		in.Settings.StorageClass = pick(t, "class", "", "fast")
		in.Settings.RunAsNonRoot = maybe(t, "non-root")
		in.Settings.Gateway, in.Settings.TLSListener = pick(t, "gateway", types.NamespacedName{}, theGateway), "https"
		if maybe(t, "connection") {
			in.Credentials.ConnectionString = theURL
		}
		if maybe(t, "restarts") {
			in.Restarts = map[string]string{stack.Database: "2026-01-01T00:00:00Z", stack.Backend: "2026-01-01T00:00:00Z"}
		}
	})
}

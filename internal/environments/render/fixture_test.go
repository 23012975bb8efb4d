// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/apis/v1alpha1"
)

// Credentials that nothing else in a test is like.
const (
	thePassword = "Zq7dbPassword"
	theKey      = "Zq7apiKey"
	theURL      = "postgresql://Zq7user:Zq7connection@elsewhere:6432/other"
)

// complete is an environment with every component, after what the smoke client of the service sends.
func complete() *v1alpha1.Environment {
	check := func(command ...string) *v1alpha1.EnvironmentHealthCheck {
		return &v1alpha1.EnvironmentHealthCheck{Command: command, IntervalSeconds: 30, TimeoutSeconds: 5, Retries: 3, StartPeriodSeconds: 10}
	}
	return &v1alpha1.Environment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop-0a1b2c3d", Generation: 1},
		Spec: v1alpha1.EnvironmentSpec{
			RunPolicy: v1alpha1.RunPolicyRunning,
			Stack: v1alpha1.ApplicationStack{
				Name: "web", Version: "1.0.0",
				Database: &v1alpha1.DatabaseComponent{
					DatabaseName: "shop", Username: "owner", PersistentStorage: true,
					Container: v1alpha1.EnvironmentContainer{Image: "postgres:17", Ports: tcp(5432), Resources: sized("1", "1Gi", "10Gi")},
				},
				AdditionalServices: []v1alpha1.AdditionalService{{Name: "redis-cache", Container: v1alpha1.EnvironmentContainer{
					Image: "redis:8", Ports: tcp(6379), HealthCheck: check("redis-cli", "ping"),
				}}},
				Backend: &v1alpha1.BackendComponent{Container: v1alpha1.EnvironmentContainer{
					Image: "node:22", Command: []string{"node"}, Args: []string{"server.js", "--verbose"}, Ports: tcp(3000),
					Env:       map[string]v1alpha1.ConfigValue{"NODE_ENV": "production", "LOG": "info"},
					Resources: sized("500m", "512Mi", "2Gi"), HealthCheck: check("CMD", "curl", "-f", "http://localhost:3000"),
					RestartPolicy: v1alpha1.RestartUnlessStopped,
				}},
				Frontend: &v1alpha1.FrontendComponent{
					Domains: []string{"shop.example", "*.shop.example"}, TLSEnabled: true,
					Container: v1alpha1.EnvironmentContainer{
						Image: "nginx:1.29", Ports: []v1alpha1.EnvironmentPort{{ContainerPort: 80, HostPort: 8080, Protocol: v1alpha1.ProtocolTCP}},
						RestartPolicy: v1alpha1.RestartAlways,
					},
				},
			},
		},
	}
}

// input is what a complete environment that runs is rendered from, after some changes. Ports are allocated last.
func input(t require.TestingT, change ...func(*Input)) *Input {
	in := &Input{
		Environment: complete(), Namespace: "env-shop", Own: true, OpenStages: Stages,
		Settings:    Settings{SchedulerName: "berth-scheduler", SpotPercent: 50, Exposure: v1alpha1.ExposureLoadBalancer, VolumeSize: "1Gi", Domains: Domains{"*": {"*"}}},
		Credentials: Credentials{Password: thePassword, APIKeys: map[string]string{"PAYMENT_KEY": theKey}, Version: "17-18"},
	}
	for _, c := range change {
		c(in)
	}
	ports, err := AllocatePorts(&in.Environment.Spec.Stack, nil, nil, PortRange{30000, 32767})
	require.NoError(t, err)
	in.Ports = ports
	return in
}

// specOf makes a change of a spec one of an input.
func specOf(change func(*v1alpha1.EnvironmentSpec)) func(*Input) {
	return func(in *Input) { change(&in.Environment.Spec) }
}

// object is what there is of a kind and a name in what was rendered.
type object interface {
	runtime.Object
	metav1.Object
}

func of[T object](list []runtime.Object) (out []T) {
	for _, o := range list {
		if is, ok := o.(T); ok {
			out = append(out, is)
		}
	}
	return out
}

func names[T object](list []runtime.Object) []string {
	out := []string{}
	for _, o := range of[T](list) {
		out = append(out, o.GetName())
	}
	return out
}

func one[T object](t require.TestingT, list []runtime.Object, name string) T {
	for _, o := range of[T](list) {
		if o.GetName() == name {
			return o
		}
	}
	var none T
	require.Failf(t, "not rendered", "%T %s; there are %v", none, name, names[T](list))
	return none
}

// envOf are the variables of a container that have a value, and of the others the keys of the Secret.
func envOf(c *corev1.Container) (plain, secret map[string]string) {
	plain, secret = map[string]string{}, map[string]string{}
	for _, v := range c.Env {
		if v.ValueFrom == nil {
			plain[v.Name] = v.Value
		} else {
			secret[v.Name] = v.ValueFrom.SecretKeyRef.Name + "/" + v.ValueFrom.SecretKeyRef.Key
		}
	}
	return plain, secret
}

func text(t require.TestingT, v any) string {
	out, err := json.Marshal(v)
	require.NoError(t, err)
	return string(out)
}

func TestTheFixtureIsValid(t *testing.T) {
	require.Empty(t, Validate(&complete().Spec))
}

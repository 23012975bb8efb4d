// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/test/builders"
)

// Credentials that nothing else in a test is like.
const (
	thePassword = "Zq7dbPassword"
	theKey      = "Zq7apiKey"
	theURL      = "postgresql://Zq7user:Zq7connection@elsewhere:6432/other"
)

// input is what a complete environment that runs is rendered from, after some changes. Ports are allocated last.
func input(t require.TestingT, change ...func(*Input)) *Input {
	in := &Input{
		Environment: builders.CompleteEnvironment(), Namespace: "env-shop", Own: true, OpenStages: stack.Stages,
		Settings:    Settings{SchedulerName: "berth-scheduler", SpotPercent: 50, Exposure: v1alpha1.ExposureLoadBalancer, VolumeSize: "1Gi", Domains: Domains{"*": {"*"}}},
		Credentials: Credentials{Password: thePassword, APIKeys: map[string]string{"PAYMENT_KEY": theKey}, Version: "17-18"},
	}
	for _, c := range change {
		c(in)
	}
	ports, err := stack.AllocatePorts(&in.Environment.Spec.Stack, nil, nil, stack.PortRange{First: 30000, Last: 32767})
	require.NoError(t, err)
	in.Ports = ports
	return in
}

// specOf makes a change of a spec one of an input.
func specOf(change func(*v1alpha1.EnvironmentSpec)) func(*Input) {
	return func(in *Input) { change(&in.Environment.Spec) }
}

// backend makes a change of the backend's container one of a spec.
func backend(change func(*v1alpha1.EnvironmentContainer)) func(*v1alpha1.EnvironmentSpec) {
	return func(s *v1alpha1.EnvironmentSpec) { change(&s.Stack.Backend.Container) }
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

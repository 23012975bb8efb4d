// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/environments/validation"
)

func exec(interval, timeout, failures int32, command ...string) *corev1.Probe {
	return probe(corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: command}}, interval, timeout, failures)
}

// pair returns the liveness and readiness probes of a check with default times.
func pair(handler corev1.ProbeHandler) (liveness, readiness *corev1.Probe) {
	return probe(handler, 30, 5, 3), probe(handler, 5, 5, 3)
}

func TestProbes(t *testing.T) {
	type check = v1alpha1.EnvironmentHealthCheck
	timed := func(interval, timeout, retries, start int32, command ...string) *check {
		return &check{Command: command, IntervalSeconds: interval, TimeoutSeconds: timeout, Retries: retries, StartPeriodSeconds: start}
	}
	for name, c := range map[string]struct {
		check                        *check
		liveness, readiness, startup *corev1.Probe
	}{
		"no check":         {},
		"none, explicitly": {check: &check{Command: []string{"NONE"}, IntervalSeconds: 3}},
		"all fields set":   {timed(30, 7, 4, 0, "curl", "-f", "x"), exec(30, 7, 4, "curl", "-f", "x"), exec(5, 7, 4, "curl", "-f", "x"), nil},
		"the defaults":     {&check{Command: []string{"a"}}, exec(30, 5, 3, "a"), exec(5, 5, 3, "a"), nil},
		"as Docker has it": {&check{Command: []string{"CMD", "a", "b"}}, exec(30, 5, 3, "a", "b"), exec(5, 5, 3, "a", "b"), nil},
		"in a shell": {
			&check{Command: []string{"CMD-SHELL", "a || b"}},
			exec(30, 5, 3, "/bin/sh", "-c", "a || b"), exec(5, 5, 3, "/bin/sh", "-c", "a || b"), nil,
		},
		"more often than others": {&check{Command: []string{"a"}, IntervalSeconds: 2}, exec(2, 5, 3, "a"), exec(2, 5, 3, "a"), nil},
		// 60 s in which nothing counts are 12 tries, and then there are those that do.
		"time to start":         {timed(30, 5, 3, 60, "a"), exec(30, 5, 3, "a"), exec(5, 5, 3, "a"), exec(5, 5, 15, "a")},
		"time that is no tries": {timed(30, 5, 3, 61, "a"), exec(30, 5, 3, "a"), exec(5, 5, 3, "a"), exec(5, 5, 16, "a")},
		"often, time to start":  {timed(2, 1, 1, 9, "a"), exec(2, 1, 1, "a"), exec(2, 1, 1, "a"), exec(2, 1, 6, "a")},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(t, specOf(backend(func(b *v1alpha1.EnvironmentContainer) { b.HealthCheck = c.check })))
			got := templatesOf(Render(in))[stack.Backend].Spec.Containers[0]
			assert.Equal(t, c.liveness, got.LivenessProbe)
			assert.Equal(t, c.readiness, got.ReadinessProbe)
			assert.Equal(t, c.startup, got.StartupProbe)
		})
	}
}

func TestProbesOverTheNetwork(t *testing.T) {
	type check = v1alpha1.EnvironmentHealthCheck
	for name, c := range map[string]struct {
		check check
		want  corev1.ProbeHandler
	}{
		"HTTP": {
			check{HTTPGet: &v1alpha1.EnvironmentHTTPGet{Port: 3000}},
			corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(3000), Scheme: "HTTP"}},
		},
		"HTTPS": {
			check{HTTPGet: &v1alpha1.EnvironmentHTTPGet{Path: "/ready?full=1", Port: 8443, Scheme: "HTTPS"}},
			corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready?full=1", Port: intstr.FromInt32(8443), Scheme: "HTTPS"}},
		},
		"TCP": {
			check{TCPSocket: &v1alpha1.EnvironmentTCPSocket{Port: 6379}},
			corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(6379)}},
		},
		"gRPC": {
			check{GRPC: &v1alpha1.EnvironmentGRPCCheck{Port: 9090, Service: "shop.v1.Orders"}},
			corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 9090, Service: new("shop.v1.Orders")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(t, specOf(backend(func(b *v1alpha1.EnvironmentContainer) { b.HealthCheck = &c.check })))
			require.Empty(t, validation.Spec(&in.Environment.Spec))
			got := templatesOf(Render(in))[stack.Backend].Spec.Containers[0]
			liveness, readiness := pair(c.want)
			assert.Equal(t, liveness, got.LivenessProbe)
			assert.Equal(t, readiness, got.ReadinessProbe)
		})
	}
}

// A database is ready when it takes connections over the network, whatever its own check returns.
func TestProbesOfADatabase(t *testing.T) {
	probes := func(change func(*v1alpha1.DatabaseComponent)) *corev1.Container {
		in := input(t, database(change))
		require.Empty(t, validation.Spec(&in.Environment.Spec))
		return &templatesOf(Render(in))[stack.Database].Spec.Containers[0]
	}
	got := probes(func(*v1alpha1.DatabaseComponent) {})
	assert.Equal(t, exec(5, 5, 3, "pg_isready", "-U", "owner", "-d", "shop", "-h", "localhost", "-p", "5432"), got.ReadinessProbe)
	assert.Nil(t, got.LivenessProbe)

	got = probes(func(d *v1alpha1.DatabaseComponent) {
		d.DatabaseName, d.Username = "", ""
		d.Container.Ports = append(tcp(9187), tcp(6432)...)
		d.Container.HealthCheck = &v1alpha1.EnvironmentHealthCheck{Command: []string{"check"}, StartPeriodSeconds: 5}
	})
	assert.Equal(t, []string{"pg_isready", "-U", "postgres", "-d", "postgres", "-h", "localhost", "-p", "9187"}, got.ReadinessProbe.Exec.Command)
	assert.Equal(t, exec(30, 5, 3, "check"), got.LivenessProbe)
	assert.Equal(t, exec(5, 5, 4, "check"), got.StartupProbe)
}

// What may end has no probes.
func TestAJobHasNoProbes(t *testing.T) {
	in := input(t, specOf(backend(func(b *v1alpha1.EnvironmentContainer) { b.RestartPolicy = v1alpha1.RestartNo })))
	got := templatesOf(Render(in))[stack.Backend].Spec.Containers[0]
	assert.Nil(t, got.LivenessProbe)
	assert.Nil(t, got.ReadinessProbe)
	assert.Nil(t, got.Lifecycle)
}

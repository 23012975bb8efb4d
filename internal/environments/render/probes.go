// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

// Defaults of a health check.
const (
	defaultInterval, defaultTimeout, defaultRetries = 30, 5, 3
	// startEvery is how many seconds pass between two start-up probes: fewer than between later probes.
	startEvery = 5
)

// probes has the kubelet run a container's health check: it gets no requests and is restarted while the check fails. A
// database without one is ready when it accepts connections.
func (in *Input) probes(c *stack.Component, out *corev1.Container) {
	check := c.Container.HealthCheck
	if c.Workload == stack.OfJob {
		return // it does its work and ends; nothing waits for it to be ready
	}
	if c.IsDatabase() {
		d := in.Environment.Spec.Stack.Database
		// Over TCP: while the image makes its database, a server that is ended again afterwards answers on the socket.
		ready := []string{"pg_isready", "-U", userOf(d), "-d", DatabaseName(d), "-h", "localhost", "-p", fmt.Sprint(portOf(d))}
		out.ReadinessProbe = probe(run(ready), startEvery, defaultTimeout, defaultRetries)
	}
	handler, found := handlerOf(check)
	if !found {
		return
	}
	interval, timeout := cmp.Or(check.IntervalSeconds, defaultInterval), cmp.Or(check.TimeoutSeconds, defaultTimeout)
	retries := cmp.Or(check.Retries, defaultRetries)
	out.LivenessProbe = probe(handler, interval, timeout, retries)
	if out.ReadinessProbe == nil {
		out.ReadinessProbe = probe(handler, min(interval, startEvery), timeout, retries)
	}
	if check.StartPeriodSeconds > 0 {
		every := min(interval, startEvery)
		out.StartupProbe = probe(handler, every, timeout, (check.StartPeriodSeconds+every-1)/every+retries)
	}
}

// handlerOf returns what the kubelet does for a health check, false for nothing.
func handlerOf(h *v1alpha1.EnvironmentHealthCheck) (corev1.ProbeHandler, bool) {
	switch {
	case h == nil:
		return corev1.ProbeHandler{}, false
	case h.HTTPGet != nil:
		g := h.HTTPGet
		return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: cmp.Or(g.Path, "/"), Port: intstr.FromInt32(g.Port), Scheme: cmp.Or(g.Scheme, corev1.URISchemeHTTP),
		}}, true
	case h.TCPSocket != nil:
		return corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(h.TCPSocket.Port)}}, true
	case h.GRPC != nil:
		return corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: h.GRPC.Port, Service: new(h.GRPC.Service)}}, true
	}
	command := commandOf(h.Command)
	return run(command), command != nil
}

// commandOf returns the command that a check of Docker's form runs, nil for none.
func commandOf(command []string) []string {
	if len(command) == 0 {
		return nil
	}
	switch command[0] {
	case "NONE":
		return nil
	case "CMD":
		return command[1:]
	case "CMD-SHELL":
		return append([]string{"/bin/sh", "-c"}, command[1:]...)
	}
	return command
}

func run(command []string) corev1.ProbeHandler {
	return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: command}}
}

func probe(handler corev1.ProbeHandler, interval, timeout, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: handler, PeriodSeconds: interval, TimeoutSeconds: timeout, FailureThreshold: failures, SuccessThreshold: 1,
	}
}

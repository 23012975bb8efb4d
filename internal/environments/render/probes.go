// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// What a health check is where it does not say.
const (
	defaultInterval, defaultTimeout, defaultRetries = 30, 5, 3
	// startEvery is how often a container is requested whether it has started: more often than later whether it is well.
	startEvery = 5
)

// probes has the kubelet run a container's health check: it takes no requests and is started again while the check fails. A
// database without one is requested whether it takes connections.
func (in *Input) probes(c *Component, out *corev1.Container) {
	check := c.Container.HealthCheck
	command := commandOf(check)
	if c.Workload == OfJob {
		return // it does its work and ends; nothing waits for it to be ready
	}
	if c.isDatabase() {
		d := in.Environment.Spec.Stack.Database
		// Over TCP: while the image makes its database, a server that is ended again afterwards answers on the socket.
		ready := []string{"pg_isready", "-U", userOf(d), "-d", DatabaseName(d), "-h", "localhost", "-p", fmt.Sprint(portOf(d))}
		out.ReadinessProbe = probe(ready, startEvery, defaultTimeout, defaultRetries)
	}
	if command == nil {
		return
	}
	interval, timeout := cmp.Or(check.IntervalSeconds, defaultInterval), cmp.Or(check.TimeoutSeconds, defaultTimeout)
	retries := cmp.Or(check.Retries, defaultRetries)
	out.LivenessProbe = probe(command, interval, timeout, retries)
	if out.ReadinessProbe == nil {
		out.ReadinessProbe = probe(command, min(interval, startEvery), timeout, retries)
	}
	if check.StartPeriodSeconds > 0 {
		every := min(interval, startEvery)
		out.StartupProbe = probe(command, every, timeout, (check.StartPeriodSeconds+every-1)/every+retries)
	}
}

// commandOf is what a health check runs, nil for nothing.
func commandOf(h *v1alpha1.EnvironmentHealthCheck) []string {
	if h == nil || len(h.Command) == 0 {
		return nil
	}
	switch h.Command[0] {
	case "NONE":
		return nil
	case "CMD":
		return h.Command[1:]
	case "CMD-SHELL":
		return append([]string{"/bin/sh", "-c"}, h.Command[1:]...)
	}
	return h.Command
}

func probe(command []string, interval, timeout, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: command}},
		PeriodSeconds: interval, TimeoutSeconds: timeout, FailureThreshold: failures, SuccessThreshold: 1,
	}
}

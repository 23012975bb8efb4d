// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/testenv"
)

func TestAnEnvironmentRunsAndGoesAgain(t *testing.T) {
	s := start(t)
	s.Create(environment("shop"))
	e := s.comes("shop", v1alpha1.EnvironmentRunning)
	assert.Equal(t, "4/4", e.Status.Ready)
	assert.Equal(t, []string{"backend", "frontend", "redis-cache"}, s.names(e, &appsv1.DeploymentList{}))
	assert.Equal(t, []string{"database"}, s.names(e, &appsv1.StatefulSetList{}))
	services := s.names(e, &corev1.ServiceList{})
	for _, name := range []string{"frontend", "backend", "database", "redis-cache"} {
		assert.Contains(t, services, name)
	}
	require.Len(t, e.Status.Ports, 4)

	backend := in(s, e, "backend", &appsv1.Deployment{}).Spec.Template.Spec.Containers[0]
	i := slices.IndexFunc(backend.Env, func(v corev1.EnvVar) bool { return v.Name == "DATABASE_URL" })
	require.GreaterOrEqual(t, i, 0)
	assert.Empty(t, backend.Env[i].Value, "it has a password in it")
	secret := in(s, e, "backend", &corev1.Secret{})
	assert.Regexp(t, `^postgresql://shop:[A-Z2-7]{26}@database:5432/shop$`, string(secret.Data["DATABASE_URL"]))
	for _, p := range s.pods(e, "database") {
		assert.Equal(t, "on-demand", s.runsOn(&p), "a database is where it is safe")
		assert.Equal(t, []string{"pg_isready", "-U", "shop", "-d", "shop", "-h", "localhost", "-p", "5432"}, p.Spec.Containers[0].ReadinessProbe.Exec.Command)
	}
	for _, name := range []string{"frontend", "backend", "redis-cache"} {
		for _, p := range s.pods(e, name) {
			assert.Empty(t, p.Spec.SchedulingGates)
			assert.Equal(t, "berth-scheduler", p.Spec.SchedulerName)
		}
	}

	s.Eventually("the metrics show it", func() (bool, string) {
		running := s.Metric(s.process, "berth_environments", map[string]string{"phase": "Running"})
		came := s.Metric(s.process, "berth_environments_phase_transitions_total", map[string]string{"phase": "Running"})
		started := s.Metric(s.process, "berth_environments_start_duration_seconds_count", nil)
		return running == 1 && came == 1 && started == 1, fmt.Sprint(running, came, started)
	})

	ns := s.namespace(e)
	s.deleted(e)
	s.WaitDeleted(ns)
	// Its pods went first, then what was around them, then the namespace.
	requests := s.AuditAll(func(r testenv.Request) bool { return r.Verb == "delete" && r.OK() && r.Namespace == e.Status.Namespace })
	slices.SortStableFunc(requests, func(a, b testenv.Request) int { return a.At.Compare(b.At) })
	var deleted []string
	for _, r := range requests {
		deleted = append(deleted, r.Resource)
	}
	pods, around, end := slices.Index(deleted, "pods"), slices.Index(deleted, "services"), slices.Index(deleted, "namespaces")
	require.GreaterOrEqual(t, pods, 0, deleted)
	require.Greater(t, around, pods, deleted)
	assert.NotContains(t, deleted[around:], "pods", deleted)
	require.Greater(t, end, around, deleted)
	assert.NotContains(t, deleted[end:], "services", deleted)
}

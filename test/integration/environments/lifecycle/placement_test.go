// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
)

// zones returns how many pods of an environment run in each zone, and on each capacity type.
func (s *scene) zones(e *v1alpha1.Environment) (zones, types map[string]int) {
	s.T.Helper()
	zones, types = map[string]int{}, map[string]int{}
	for _, p := range s.Pods(client.InNamespace(e.Status.Namespace)) {
		node := &corev1.Node{}
		if err := s.Client.Get(s.Ctx, client.ObjectKey{Name: p.Spec.NodeName}, node); err == nil {
			zones[node.Labels[corev1.LabelTopologyZone]]++
			types[s.runsOn(&p)]++
		}
	}
	return zones, types
}

// On nodes of three zones, of both capacity types each, a stack runs in the zone that it prefers, or in that of its database, and the
// mix holds.
func TestAStackRunsInOneZone(t *testing.T) {
	s := share(t)
	stack := func(name string, p v1alpha1.EnvironmentPlacement) *v1alpha1.Environment {
		e := environment(name)
		p.SpotPercent = new(int32(50))
		e.Spec.Placement = &p
		e.Spec.Stack.Backend.Replicas, e.Spec.Stack.Frontend.Replicas = new(int32(4)), new(int32(4))
		return s.runs(e)
	}
	const pods = 10 // the fixture has one additional service
	preferred := stack("preferred", v1alpha1.EnvironmentPlacement{Colocation: v1alpha1.ColocationSameZone, PreferredZone: "zone-c"})
	zones, types := s.zones(preferred)
	assert.Equal(t, map[string]int{"zone-c": pods}, zones)
	assert.Equal(t, 4, types["spot"], "2 of each 4; one replica stays on on-demand: %v", types)

	follows := stack("follows", v1alpha1.EnvironmentPlacement{Colocation: v1alpha1.ColocationSameZone})
	zones, _ = s.zones(follows)
	assert.Len(t, zones, 1, "all are in the zone of the database: %v", zones)

	spread := stack("spread", v1alpha1.EnvironmentPlacement{})
	zones, _ = s.zones(spread)
	assert.Greater(t, len(zones), 1, "by default the scheduler spreads replicas: %v", zones)
}

// An environment may be exposed less than configured, and otherwise only as the configuration allows.
func TestAnEnvironmentOverridesTheExposure(t *testing.T) {
	s := share(t) // by default LoadBalancer
	e := small("private")
	e.Spec.Network = &v1alpha1.EnvironmentNetwork{Exposure: v1alpha1.ExposureNone}
	e = s.runs(e)
	services := func() string { return fmt.Sprint(s.names(e, &corev1.ServiceList{})) }
	assert.Equal(t, "[frontend]", services())
	expose := func(x v1alpha1.EnvironmentExposure) {
		s.change("private", func(e *v1alpha1.Environment) { e.Spec.Network.Exposure = x })
	}
	expose(v1alpha1.ExposureNodePort)
	e = s.comes("private", v1alpha1.EnvironmentFailed)
	assert.Contains(t, e.Status.Message, `spec.network.exposure: Unsupported value: "NodePort": supported values: "LoadBalancer", "None"`)
	assert.Contains(t, e.Status.Message, "environments.exposures")
	assert.Equal(t, "[frontend]", services())
	expose(v1alpha1.ExposureLoadBalancer)
	s.comes("private", v1alpha1.EnvironmentRunning)
	assert.True(t, strings.Contains(services(), "frontend-outside"), services())
}

// SPDX-License-Identifier: Apache-2.0

// Package wire_test calls the gRPC and REST services of a running controller as their clients do.
package wire_test

import (
	"context"
	"os"
	"testing"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/testenv"
	"berth.dev/berth/test/wire/anyform"
	"berth.dev/berth/test/wire/mapform"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{NoScheduler: true})) }

// scene is a running controller that serves, and a namespace with users of ResourceLimits.
type scene struct{ *servicetest.Served }

// serve starts a controller that serves on loopback.
func serve(t *testing.T, changes ...func(*controller.Services)) *scene {
	t.Helper()
	s := &scene{servicetest.New(t, "resourcelimits")}
	s.start("berth-controller", changes...)
	return s
}

func (s *scene) start(name string, changes ...func(*controller.Services)) {
	s.T.Helper()
	s.Start(name, func(c *controller.Configuration) {
		for _, change := range changes {
			change(&c.Services)
		}
	})
}

func (s *scene) any() anyform.ResourceLimitServiceClient {
	return anyform.NewResourceLimitServiceClient(s.Conn())
}

func (s *scene) mapped() mapform.McpOrchestratorServiceClient {
	return mapform.NewMcpOrchestratorServiceClient(s.Conn())
}

// as is the context of a call in the test's namespace.
func (s *scene) as(token string, more ...string) context.Context {
	return s.As(token, append([]string{"berth-namespace", s.Namespace}, more...)...)
}

// stored is a limit as the API server has it.
func (s *scene) stored(name string) *v1alpha1.ResourceLimit {
	s.T.Helper()
	return testenv.Read(s.World, name, &v1alpha1.ResourceLimit{})
}

// count is how many limits the namespace has.
func (s *scene) count() int {
	s.T.Helper()
	return len(s.Names(&v1alpha1.ResourceLimitList{}))
}

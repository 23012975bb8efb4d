// SPDX-License-Identifier: Apache-2.0

// Package wire_test calls the gRPC and REST services of a running controller as their clients do.
package wire_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
	"k8s.io/apimachinery/pkg/types"

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
	return serveWith(t, func(*scene) func(*controller.Services) {
		return func(c *controller.Services) {
			for _, change := range changes {
				change(c)
			}
		}
	})
}

// serveWith is serve for a configuration that depends on the cluster.
func serveWith(t *testing.T, configure func(*scene) func(*controller.Services)) *scene {
	t.Helper()
	s := &scene{servicetest.New(t, "resourcelimits")}
	s.start("berth-controller", configure(s))
	return s
}

func (s *scene) start(name string, change func(*controller.Services)) {
	s.T.Helper()
	s.Start(name, func(c *controller.Configuration) { change(&c.Services) })
}

func (s *scene) any() anyform.McpOrchestratorServiceClient {
	return anyform.NewMcpOrchestratorServiceClient(s.Conn())
}

func (s *scene) mapped() mapform.McpOrchestratorServiceClient {
	return mapform.NewMcpOrchestratorServiceClient(s.Conn())
}

// as is the context of a call in the test's namespace.
func (s *scene) as(token string, more ...string) context.Context {
	md := metadata.Pairs(append([]string{"berth-namespace", s.Namespace}, more...)...)
	if token != "" {
		md.Set("authorization", "Bearer "+token)
	}
	return metadata.NewOutgoingContext(s.Ctx, md)
}

// stored is a limit as the API server has it.
func (s *scene) stored(name string) *v1alpha1.ResourceLimit {
	s.T.Helper()
	var l v1alpha1.ResourceLimit
	require.NoError(s.T, s.Client.Get(s.Ctx, types.NamespacedName{Namespace: s.Namespace, Name: name}, &l))
	return &l
}

// count is how many limits the namespace has.
func (s *scene) count() int {
	s.T.Helper()
	var l v1alpha1.ResourceLimitList
	require.NoError(s.T, s.Client.List(s.Ctx, &l, inNamespace(s.Namespace)))
	return len(l.Items)
}

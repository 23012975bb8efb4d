// SPDX-License-Identifier: Apache-2.0

// Package services_test calls the gRPC and REST services of a running controller as their clients do.
package services_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/wire"
	"berth.dev/berth/test/wire/anyform"
	"berth.dev/berth/test/wire/mapform"
	"berth.dev/berth/test/world"
)

func TestMain(m *testing.M) { os.Exit(world.Main(m, world.Options{NoScheduler: true})) }

// served is a running controller that serves, and a namespace with users of it.
type served struct {
	*world.World
	process *cluster.Controller
	address string
	tls     *tls.Config // nil: plaintext
	// editor may do everything with limits, viewer may read them, nobody may nothing. These are their tokens.
	editor, viewer, nobody string
}

// serve starts a controller that serves on loopback.
func serve(t *testing.T, changes ...func(*controller.Services)) *served {
	t.Helper()
	return serveWith(t, func(*served) func(*controller.Services) {
		return func(c *controller.Services) {
			for _, change := range changes {
				change(c)
			}
		}
	})
}

// serveWith is serve for a configuration that depends on the cluster.
func serveWith(t *testing.T, configure func(*served) func(*controller.Services)) *served {
	t.Helper()
	s := &served{World: world.New(t)}
	s.ApplyFiles("manifests/rbac/services")
	s.editor = s.user("editor", "*")
	s.viewer = s.user("viewer", "get", "list")
	s.nobody = s.user("nobody")
	s.start("berth-controller", configure(s))
	return s
}

func (s *served) start(name string, change func(*controller.Services)) {
	s.T.Helper()
	s.address = s.FreeAddress()
	s.process = s.StartController(name, world.Impatient, func(c *controller.Configuration) {
		// An API server that is held up for some seconds costs no lease: a controller that lost it would end.
		c.LeaderElection.LeaseDurationSeconds, c.LeaderElection.RenewDeadlineSeconds = 60, 50
		c.Services.BindAddress = s.address
		change(&c.Services)
		if c.Services.CertFile != "" {
			s.tls = &tls.Config{InsecureSkipVerify: true}
		}
	})
	client := healthpb.NewHealthClient(s.dial(nil))
	s.Eventually("the services are served", func() (bool, string) {
		r, err := client.Check(s.Ctx, &healthpb.HealthCheckRequest{})
		return err == nil && r.Status == healthpb.HealthCheckResponse_SERVING, fmt.Sprint(r, err)
	})
}

// user makes a service account that may do something with the limits of the namespace, and returns a token of it.
func (s *served) user(name string, verbs ...string) string {
	s.T.Helper()
	s.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if len(verbs) > 0 {
		s.Create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"berth.dev"}, Resources: []string{"resourcelimits"}, Verbs: verbs},
		}}, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: s.Namespace}},
		})
	}
	token, err := s.Kube.CoreV1().ServiceAccounts(s.Namespace).CreateToken(s.Ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(s.T, err)
	return token.Status.Token
}

// dial connects, with TLS if the server has it.
func (s *served) dial(config *tls.Config, options ...grpc.DialOption) *grpc.ClientConn {
	s.T.Helper()
	if config == nil {
		config = s.tls
	}
	transport := insecure.NewCredentials()
	if config != nil {
		transport = credentials.NewTLS(config)
	}
	conn, err := grpc.NewClient("passthrough:///"+s.address, append(options, grpc.WithTransportCredentials(transport))...)
	require.NoError(s.T, err)
	s.T.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (s *served) any() anyform.McpOrchestratorServiceClient {
	return anyform.NewMcpOrchestratorServiceClient(wire.Conn{ClientConnInterface: s.dial(nil)})
}

func (s *served) mapped() mapform.McpOrchestratorServiceClient {
	return mapform.NewMcpOrchestratorServiceClient(wire.Conn{ClientConnInterface: s.dial(nil)})
}

// as is the context of a call in the test's namespace.
func (s *served) as(token string, more ...string) context.Context {
	md := metadata.Pairs(append([]string{"berth-namespace", s.Namespace}, more...)...)
	if token != "" {
		md.Set("authorization", "Bearer "+token)
	}
	return metadata.NewOutgoingContext(s.Ctx, md)
}

// stored is a limit as the API server has it.
func (s *served) stored(name string) *v1alpha1.ResourceLimit {
	s.T.Helper()
	var l v1alpha1.ResourceLimit
	require.NoError(s.T, s.Client.Get(s.Ctx, types.NamespacedName{Namespace: s.Namespace, Name: name}, &l))
	return &l
}

// count is how many limits the namespace has.
func (s *served) count() int {
	s.T.Helper()
	var l v1alpha1.ResourceLimitList
	require.NoError(s.T, s.Client.List(s.Ctx, &l, inNamespace(s.Namespace)))
	return len(l.Items)
}

// refused demands a code, and that the error names a field, as a google.rpc.BadRequest does, and has the words.
func refused(t *testing.T, err error, code codes.Code, field string, words ...string) {
	t.Helper()
	require.Error(t, err)
	s := status.Convert(err)
	require.Equal(t, code, s.Code(), "%v", err)
	for _, w := range words {
		require.Contains(t, s.Message(), w)
	}
	if field == "" {
		return
	}
	require.Contains(t, s.Message(), field)
	var fields []string
	for _, d := range s.Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			for _, v := range bad.FieldViolations {
				fields = append(fields, v.Field)
				require.NotEmpty(t, v.Description)
			}
		}
	}
	require.Contains(t, fields, field, "%v", err)
}

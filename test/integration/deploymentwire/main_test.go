// SPDX-License-Identifier: Apache-2.0

// Package deploymentwire_test calls the services of DeploymentRecords of a running controller as their clients do: with the
// messages of either published revision. What becomes of a record is not looked at here: where it matters, the test writes
// a record's status itself.
package deploymentwire_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/wire"
	"berth.dev/berth/test/wire/oaashead"
	"berth.dev/berth/test/wire/oaasplan"
	"berth.dev/berth/test/world"
)

func TestMain(m *testing.M) { os.Exit(world.Main(m, world.Options{NoScheduler: true})) }

const (
	serviceName = "oaas.deployment.DeploymentService"
	aliasName   = "deployment.DeploymentService"
)

// served is a running controller that serves, and a namespace with users of it.
type served struct {
	*world.World
	process *cluster.Controller
	address string
	// editor may do everything with records and count nodes, viewer may read records, nobody may nothing. These are their
	// tokens.
	editor, viewer, nobody string
}

// serve starts a controller that serves on loopback. The namespace of calls that name none is the test's.
func serve(t *testing.T, changes ...func(*controller.Configuration)) *served {
	t.Helper()
	return serveWith(t, nil, changes...)
}

// serveWith is serve, with more manifests applied before the controller starts.
func serveWith(t *testing.T, manifests []string, changes ...func(*controller.Configuration)) *served {
	t.Helper()
	s := &served{World: world.New(t)}
	s.ApplyFiles(append(manifests, "manifests/rbac/services")...)
	s.editor = s.user("editor", "*")
	s.viewer = s.user("viewer", "get", "list")
	s.nobody = s.user("nobody")
	counts := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.Namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: s.Namespace},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "editor", Namespace: s.Namespace}},
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list"}},
	}}
	for _, o := range []client.Object{role, counts} {
		require.NoError(t, s.Client.Create(s.Ctx, o))
		t.Cleanup(func() { _ = s.Client.Delete(context.WithoutCancel(s.Ctx), o) })
	}
	s.address = s.FreeAddress()
	s.process = s.StartController("berth-controller", world.Impatient, func(c *controller.Configuration) {
		// An API server that is held up for some seconds costs no lease: a controller that lost it would end.
		c.LeaderElection.LeaseDurationSeconds, c.LeaderElection.RenewDeadlineSeconds = 60, 50
		c.Services.BindAddress, c.Services.Deployments.Namespace = s.address, s.Namespace
		for _, change := range changes {
			change(c)
		}
	})
	health := healthpb.NewHealthClient(s.dial())
	s.Eventually("the services are served", func() (bool, string) {
		r, err := health.Check(s.Ctx, &healthpb.HealthCheckRequest{})
		return err == nil && r.Status == healthpb.HealthCheckResponse_SERVING, fmt.Sprint(r, err)
	})
	return s
}

// user makes a service account that may do something with the records of the namespace, and returns a token of it.
func (s *served) user(name string, verbs ...string) string {
	s.T.Helper()
	s.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if len(verbs) > 0 {
		s.Create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"berth.dev"}, Resources: []string{"deploymentrecords"}, Verbs: verbs},
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

func (s *served) dial(options ...grpc.DialOption) *grpc.ClientConn {
	s.T.Helper()
	conn, err := grpc.NewClient("passthrough:///"+s.address, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(s.T, err)
	s.T.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (s *served) conn() wire.Conn { return wire.Conn{ClientConnInterface: s.dial()} }

// plan and head are clients of the two revisions.
func (s *served) plan() oaasplan.DeploymentServiceClient {
	return oaasplan.NewDeploymentServiceClient(s.conn())
}

func (s *served) head() oaashead.DeploymentServiceClient {
	return oaashead.NewDeploymentServiceClient(s.conn())
}

// renamed calls the service by its alias.
type renamed struct{ grpc.ClientConnInterface }

// Invoke makes a call.
func (c renamed) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.ClientConnInterface.Invoke(ctx, strings.Replace(method, "/"+serviceName+"/", "/"+aliasName+"/", 1), args, reply, opts...)
}

// as is the context of a call.
func (s *served) as(token string, more ...string) context.Context {
	md := metadata.Pairs(more...)
	if token != "" {
		md.Set("authorization", "Bearer "+token)
	}
	return metadata.NewOutgoingContext(s.Ctx, md)
}

// stored is a record as the API server has it.
func (s *served) stored(name string) *v1alpha1.DeploymentRecord {
	s.T.Helper()
	var r v1alpha1.DeploymentRecord
	require.NoError(s.T, s.Client.Get(s.Ctx, types.NamespacedName{Namespace: s.Namespace, Name: name}, &r))
	return &r
}

// count is how many records the namespace has.
func (s *served) count() int {
	s.T.Helper()
	var l v1alpha1.DeploymentRecordList
	require.NoError(s.T, s.Client.List(s.Ctx, &l, client.InNamespace(s.Namespace)))
	return len(l.Items)
}

// setStatus writes the status of a record, as the controller would.
func (s *served) setStatus(name string, change func(*v1alpha1.DeploymentRecord)) {
	s.T.Helper()
	r := s.stored(name)
	change(r)
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		c.LastTransitionTime = metav1.Now()
		if c.Reason == "" {
			c.Reason = "Test"
		}
	}
	require.NoError(s.T, s.Client.Status().Update(s.Ctx, r))
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

// headUnit is a unit as clients of the latest revision write it.
func headUnit(id string) *oaashead.DeploymentUnit {
	return &oaashead.DeploymentUnit{
		Id: id, PackageName: "shop", ClassKey: "shop.cart", TargetEnv: "prod",
		Functions: []*oaashead.FunctionDeploymentSpec{{
			FunctionKey: "add", Description: new("adds"), NfrRequirements: &oaashead.NfrRequirements{Availability: new(0.999)},
			ProvisionConfig: &oaashead.ProvisionConfig{ContainerImage: new("example.com/add:1"), MinScale: new(uint32(2)), CpuRequest: new("500m")},
			Config:          map[string]string{"LEVEL": "info"},
		}},
		FunctionBindings: []*oaashead.ClassFunctionBinding{{Name: "add", FunctionKey: "add", Stateless: new(true), Parameters: []string{"what"}}},
		CreatedAt:        &oaashead.Timestamp{Seconds: 1_700_000_000},
	}
}

// planUnit is a unit as clients of the plan's revision write it.
func planUnit(id string) *oaasplan.DeploymentUnit {
	return &oaasplan.DeploymentUnit{
		Id: id, PackageName: "shop", ClassKey: "shop.cart", TargetCluster: "east", TargetEnv: "prod",
		Functions: []*oaasplan.FunctionDeploymentSpec{{
			FunctionKey: "add", Replicas: 3,
			ResourceRequirements: &oaasplan.ResourceRequirements{CpuRequest: "500m", MemoryRequest: "1Gi", CpuLimit: new("1")},
		}},
		NfrRequirements: &oaasplan.NfrRequirements{MaxLatencyMs: new(uint32(50)), MinThroughputRps: new(uint32(100)), Availability: new(0.9995)},
		CreatedAt:       &oaasplan.Timestamp{Seconds: 1_700_000_000},
	}
}

func (s *served) deploy(u *oaashead.DeploymentUnit) error {
	_, err := s.head().Deploy(s.as(s.editor), &oaashead.DeployRequest{DeploymentUnit: u})
	return err
}

// SPDX-License-Identifier: Apache-2.0

// Package deploymentwire_test calls the services of DeploymentRecords of a running controller as their clients do: with the
// messages of either published revision. What becomes of a record is not looked at here: where it matters, the test writes
// a record's status itself.
package wire_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/testenv"
	"berth.dev/berth/test/wire/oaashead"
	"berth.dev/berth/test/wire/oaasplan"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{NoScheduler: true, Rights: []testenv.Rights{rights}}))
}

const (
	serviceName = "oaas.deployment.DeploymentService"
	aliasName   = "deployment.DeploymentService"
)

// scene is a running controller that serves, and a namespace with users of DeploymentRecords. Its editor may count nodes too.
type scene struct{ *servicetest.Served }

// serve starts a controller that serves on loopback. The namespace of calls that name none is the test's.
func serve(t *testing.T, changes ...func(*controller.Configuration)) *scene {
	t.Helper()
	return serveWith(t, nil, changes...)
}

// serveWith is serve, with more manifests applied before the controller starts.
func serveWith(t *testing.T, manifests []string, changes ...func(*controller.Configuration)) *scene {
	t.Helper()
	s := &scene{servicetest.New(t, "deploymentrecords", manifests...)}
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
	here := func(c *controller.Configuration) {
		c.Services.Records.Namespace, c.Records.ODGMImage = s.Namespace, "registry.example/odgm:1"
	}
	s.Start("berth-controller", append([]func(*controller.Configuration){here}, changes...)...)
	return s
}

// plan and head are clients of the two revisions.
func (s *scene) plan() oaasplan.DeploymentServiceClient {
	return oaasplan.NewDeploymentServiceClient(s.Conn())
}

func (s *scene) head() oaashead.DeploymentServiceClient {
	return oaashead.NewDeploymentServiceClient(s.Conn())
}

// renamed calls the service by its alias.
type renamed struct{ grpc.ClientConnInterface }

// Invoke makes a call.
func (c renamed) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.ClientConnInterface.Invoke(ctx, strings.Replace(method, "/"+serviceName+"/", "/"+aliasName+"/", 1), args, reply, opts...)
}

// as is the context of a call.
func (s *scene) as(token string, more ...string) context.Context {
	md := metadata.Pairs(more...)
	if token != "" {
		md.Set("authorization", "Bearer "+token)
	}
	return metadata.NewOutgoingContext(s.Ctx, md)
}

// stored is a record as the API server has it.
func (s *scene) stored(name string) *v1alpha1.DeploymentRecord {
	s.T.Helper()
	var r v1alpha1.DeploymentRecord
	require.NoError(s.T, s.Client.Get(s.Ctx, types.NamespacedName{Namespace: s.Namespace, Name: name}, &r))
	return &r
}

// count is how many records the namespace has.
func (s *scene) count() int {
	s.T.Helper()
	var l v1alpha1.DeploymentRecordList
	require.NoError(s.T, s.Client.List(s.Ctx, &l, client.InNamespace(s.Namespace)))
	return len(l.Items)
}

// setStatus writes the status of a record, as the controller would.
func (s *scene) setStatus(name string, change func(*v1alpha1.DeploymentRecord)) {
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

func (s *scene) deploy(u *oaashead.DeploymentUnit) error {
	_, err := s.head().Deploy(s.as(s.Editor), &oaashead.DeployRequest{DeploymentUnit: u})
	return err
}

// SPDX-License-Identifier: Apache-2.0

// Package wire_test calls the services of DeploymentRecords of a running controller as their clients do: with the
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
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
	counts := builders.Rule("", []string{"nodes"}, "list")
	s.CreateForTest(builders.ClusterGrant(s.Namespace, builders.ServiceAccount(s.Namespace, "editor"), counts)...)
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

// stored is a record as the API server has it.
func (s *scene) stored(name string) *v1alpha1.DeploymentRecord {
	s.T.Helper()
	return testenv.Read(s.World, name, &v1alpha1.DeploymentRecord{})
}

// count is how many records the namespace has.
func (s *scene) count() int {
	s.T.Helper()
	return len(s.Names(&v1alpha1.DeploymentRecordList{}))
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
	return servicetest.Err(s.head().Deploy(s.As(s.Editor), &oaashead.DeployRequest{DeploymentUnit: u}))
}

// deployPlan is deploy of the plan's revision.
func (s *scene) deployPlan(u *oaasplan.DeploymentUnit) error {
	return servicetest.Err(s.plan().Deploy(s.As(s.Editor), &oaasplan.DeployRequest{DeploymentUnit: u}))
}

// status, runtime and remove are what the viewer and the editor get of a deployment.
func (s *scene) status(id string) (*oaashead.GetDeploymentStatusResponse, error) {
	return s.head().GetDeploymentStatus(s.As(s.Viewer), &oaashead.GetDeploymentStatusRequest{DeploymentId: id})
}

func (s *scene) runtime(id string) (*oaashead.GetClassRuntimeResponse, error) {
	return s.head().GetClassRuntime(s.As(s.Viewer), &oaashead.GetClassRuntimeRequest{DeploymentId: id})
}

func (s *scene) remove(id string) (*oaashead.DeleteDeploymentResponse, error) {
	return s.head().DeleteDeployment(s.As(s.Editor), &oaashead.DeleteDeploymentRequest{DeploymentId: id})
}

// rights are checked after all tests.
var rights = testenv.Rights{
	User: cluster.BerthControllerUser, ClusterRoles: []string{"berth-records-services"},
	// The controller records, which one test runs beside the services, has another role: it watches all namespaces, and patches.
	Counts: func(right string, r *testenv.Request) bool {
		return strings.Contains(right, " berth.dev/deployment") && (r == nil || r.Namespace != "" && r.Verb != "patch")
	},
}

// The rights that no other test of the package uses: every rpc is called.
func TestEveryCallHasItsRights(t *testing.T) {
	s := serve(t)
	u := headUnit("x")
	u.SelectedTemplate = new("none")
	require.Error(t, s.deploy(u))
	u.SelectedTemplate = nil
	require.NoError(t, s.deploy(u))
	u.ClassKey = "changed"
	require.NoError(t, s.deploy(u))
	for rpc, call := range s.every() {
		if rpc != "DeleteDeployment" && !strings.HasPrefix(rpc, "GetDeployment") && rpc != "GetClassRuntime" {
			require.NoError(t, call(s.As(s.Editor)), rpc)
		}
	}
	require.NoError(t, s.deploy(headUnit("known")))
	require.NoError(t, s.every()["DeleteDeployment"](s.As(s.Editor)))
}

// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	oaasdeployment "berth.dev/berth/apis/proto/oaas/deployment"
	oaasruntime "berth.dev/berth/apis/proto/oaas/runtime"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/wire"
	"berth.dev/berth/test/wire/oaasclass"
	"berth.dev/berth/test/wire/oaashead"
	"berth.dev/berth/test/wire/oaasplan"
	"berth.dev/berth/test/wire/oaasunit"
)

// gone waits until a status finds nothing any more.
func (s *scene) gone(id string) {
	s.T.Helper()
	s.WaitCode(id+" is gone", codes.NotFound, func() error {
		return servicetest.Err(s.plan().GetDeploymentStatus(s.As(s.Viewer), &oaasplan.GetDeploymentStatusRequest{DeploymentId: id}))
	})
}

func TestAClientOfThePlansRevision(t *testing.T) {
	s := serve(t)
	c := s.plan()
	deployed, err := c.Deploy(s.As(s.Editor), &oaasplan.DeployRequest{DeploymentUnit: planUnit("Shop.Cart")})
	require.NoError(t, err)
	assert.Equal(t, oaasplan.StatusCode_OK, deployed.Status)
	assert.Equal(t, "Shop.Cart", deployed.DeploymentId)
	assert.Equal(t, "accepted", deployed.GetMessage())

	r := s.stored("shop-cart")
	assert.Equal(t, "Shop.Cart", r.Annotations[v1alpha1.DeploymentIDAnnotation])
	assert.Equal(t, "plan", r.Annotations[v1alpha1.WireRevisionAnnotation])
	u := r.Spec.DeploymentUnit
	assert.Equal(t, "Shop.Cart", u.ID)
	assert.Equal(t, "east", u.TargetCluster)
	assert.EqualValues(t, 3, *u.Functions[0].MinScale)
	assert.Equal(t, &v1alpha1.ResourceAllocation{CPU: "500m", Memory: "1Gi", CPULimit: "1"}, u.Functions[0].Resources)
	assert.EqualValues(t, 50, *r.Spec.NFRRequirements.MaxLatencyMS)
	assert.EqualValues(t, 100, *r.Spec.NFRRequirements.MinThroughputRPS)
	assert.Equal(t, "0.9995", *r.Spec.NFRRequirements.Availability)
	assert.Empty(t, u.FunctionBindings)

	got, err := c.GetDeploymentStatus(s.As(s.Viewer), &oaasplan.GetDeploymentStatusRequest{DeploymentId: "Shop.Cart"})
	require.NoError(t, err)
	assert.Equal(t, oaasplan.StatusCode_OK, got.Status)
	assert.Equal(t, "found", got.GetMessage())
	assert.True(t, proto.Equal(&oaasplan.OClassDeployment{
		Key: "Shop.Cart", PackageName: "shop", ClassKey: "shop.cart", TargetEnv: "prod", CreatedAt: &oaasplan.Timestamp{Seconds: 1_700_000_000},
	}, got.Deployment), "%v", got.Deployment)

	deleted, err := c.DeleteDeployment(s.As(s.Editor), &oaasplan.DeleteDeploymentRequest{DeploymentId: "Shop.Cart"})
	require.NoError(t, err)
	assert.Equal(t, oaasplan.StatusCode_OK, deleted.Status)
	assert.Equal(t, "deleted", deleted.GetMessage())
	s.gone("Shop.Cart")
	_, err = c.DeleteDeployment(s.As(s.Editor), &oaasplan.DeleteDeploymentRequest{DeploymentId: "Shop.Cart"})
	servicetest.Refused(t, err, codes.NotFound, "", "Shop.Cart")
}

func TestAClientOfTheLatestRevision(t *testing.T) {
	s := serve(t)
	s.AddNodes(cluster.Nodes("", 3)...)
	c := s.head()
	deployed, err := c.Deploy(s.As(s.Editor), &oaashead.DeployRequest{DeploymentUnit: headUnit("cart-1")})
	require.NoError(t, err)
	var snapshot oaasdeployment.DeployResponse
	withAdditions(t, deployed, &snapshot)
	assert.Equal(t, "cart-1", snapshot.ClassRuntime.GetId())
	assert.Equal(t, "shop.cart", snapshot.ClassRuntime.GetClassKey())
	assert.Equal(t, oaasruntime.DeploymentCondition_DEPLOYING, snapshot.ClassRuntime.GetStatus().GetCondition())
	assert.True(t, proto.Equal(&oaashead.DeployResponse{DeploymentId: "cart-1", Message: new("accepted")}, deployed), "%v", deployed)

	r := s.stored("cart-1")
	assert.Equal(t, "head", r.Annotations[v1alpha1.WireRevisionAnnotation])
	u := r.Spec.DeploymentUnit
	f := u.Functions[0]
	assert.Equal(t, "example.com/add:1", f.Image)
	assert.EqualValues(t, 2, *f.MinScale)
	assert.Equal(t, "500m", f.Resources.CPU)
	assert.Equal(t, "0.999", *f.NFRRequirements.Availability)
	assert.Equal(t, map[string]v1alpha1.ConfigValue{"LEVEL": "info"}, f.Config)
	assert.Equal(t, []v1alpha1.FunctionBinding{{Name: "add", FunctionKey: "add", Stateless: new(true), Parameters: []string{"what"}}}, u.FunctionBindings)
	assert.Nil(t, r.Spec.NFRRequirements)

	s.setStatus("cart-1", func(r *v1alpha1.DeploymentRecord) {
		r.Status = v1alpha1.DeploymentRecordStatus{
			ObservedGeneration: r.Generation, Phase: v1alpha1.PhaseDegraded, Template: "dev",
			Conditions:   []metav1.Condition{{Type: v1alpha1.ConditionDegraded, Status: "True", Reason: "ImageMissing", Message: "add has no image"}},
			ResourceRefs: []v1alpha1.ResourceRef{{APIVersion: "apps/v1", Kind: "Deployment", Name: "cart-1", UID: "u1"}, {APIVersion: "v1", Kind: "Service", Name: "cart-1"}},
			Functions: []v1alpha1.FunctionStatus{{
				FunctionKey: "add", Service: "cart-1", Port: 80, URL: "http://cart-1/", Ready: true, LastTransitionTime: new(metav1.Now()),
			}},
			NFRCompliance: &v1alpha1.NFRCompliance{Overall: v1alpha1.ComplianceViolated, Latency: v1alpha1.ComplianceMet, LastChecked: new(metav1.Now())},
			NFRRecommendations: []v1alpha1.NFRRecommendation{
				{Component: "cart-1", Dimension: v1alpha1.DimensionReplicas, Target: 3, Basis: "cpu 1200m", ConfidencePercent: 60},
			},
		}
	})
	references := []*oaashead.ResourceReference{
		{Kind: "Deployment", Name: "cart-1", Namespace: &s.Namespace, Uid: new("u1")}, {Kind: "Service", Name: "cart-1", Namespace: &s.Namespace},
	}
	got, err := c.GetDeploymentStatus(s.As(s.Viewer), &oaashead.GetDeploymentStatusRequest{DeploymentId: "cart-1"})
	require.NoError(t, err)
	requireMeasurements(t, got)
	assert.True(t, proto.Equal(&oaashead.GetDeploymentStatusResponse{
		Deployment: &oaashead.DeploymentUnit{
			Id: "cart-1", PackageName: "shop", ClassKey: "shop.cart", TargetEnv: "prod", CreatedAt: &oaashead.Timestamp{Seconds: 1_700_000_000},
		},
		Message: new("Degraded (ImageMissing): add has no image"), StatusResourceRefs: references,
	}, got), "%v", got)

	list, err := c.ListClassRuntimes(s.As(s.Viewer), &oaashead.ListClassRuntimesRequest{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	one, err := c.GetClassRuntime(s.As(s.Viewer), &oaashead.GetClassRuntimeRequest{DeploymentId: "cart-1"})
	require.NoError(t, err)
	assert.True(t, proto.Equal(list.Items[0], one.Deployment))
	d := one.Deployment
	assert.Equal(t, []string{"cart-1", "cart-1", "shop", "shop.cart", "prod"}, []string{d.Id, d.DeploymentUnitId, d.PackageName, d.ClassKey, d.TargetEnvironment})
	assert.Equal(t, oaashead.DeploymentCondition_DOWN, d.Status.Condition)
	assert.Equal(t, oaashead.DeploymentPhase_FAILED, d.Status.Phase)
	assert.Equal(t, got.Message, d.Status.Message)
	assert.Equal(t, "Violated", d.NfrCompliance.OverallStatus)
	assert.Equal(t, "Met", d.NfrCompliance.GetLatencyStatus())
	assert.Nil(t, d.NfrCompliance.AvailabilityStatus)
	assert.EqualValues(t, 1, d.PartitionCount)
	require.Len(t, d.Status.Functions, 1)
	assert.Equal(t, "http://cart-1/", d.Status.Functions[0].GetObservedUrl())
	assert.Equal(t, "dev", d.Status.Functions[0].Template)
	require.Len(t, d.ResourceRefs, 2)
	assert.True(t, proto.Equal(references[0], d.ResourceRefs[0]))
	for _, at := range []string{d.CreatedAt, d.UpdatedAt, d.Status.LastUpdated, d.NfrCompliance.LastChecked, d.Status.Functions[0].GetLastTransitionTime()} {
		assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`, at)
	}

	require.NoError(t, servicetest.Err(c.DeleteDeployment(s.As(s.Editor), &oaashead.DeleteDeploymentRequest{DeploymentId: "cart-1"})))
	s.gone("cart-1")
	_, err = c.GetClassRuntime(s.As(s.Viewer), &oaashead.GetClassRuntimeRequest{DeploymentId: "cart-1"})
	servicetest.Refused(t, err, codes.NotFound, "")
}

func TestHealthOfTheEnvironment(t *testing.T) {
	s := serve(t)
	crm := oaashead.NewCrmInfoServiceClient(s.Conn())
	ask := func() *oaashead.CrmEnvHealth {
		h, err := crm.GetEnvHealth(s.As(s.Editor), &oaashead.CrmEnvRequest{Env: "prod"})
		require.NoError(t, err)
		return h
	}
	h := ask()
	assert.Equal(t, "Degraded", h.Status)
	assert.Zero(t, h.GetNodeCount())
	assert.Nil(t, h.Availability)

	s.AddNodes(cluster.Nodes("", 3)...)
	s.Eventually("three nodes are counted", func() (bool, string) {
		h = ask()
		return h.GetNodeCount() == 3 && h.GetReadyNodes() == 3, fmt.Sprint(h)
	})
	assert.Equal(t, "prod", h.EnvName)
	assert.Equal(t, "Healthy", h.Status)
	assert.NotEmpty(t, h.GetCrmVersion())
	assert.InDelta(t, 1, h.GetAvailability(), 0)
	assert.Positive(t, h.GetLastSeen().GetSeconds())
	var old oaashead.CrmEnvHealth
	require.NoError(t, s.Dial(nil).Invoke(s.As(s.Editor), "/oaas.health.CrmInfoService/GetClusterHealth", &oaashead.CrmEnvRequest{Env: "east"}, &old))
	assert.Equal(t, "east", old.EnvName)
	assert.EqualValues(t, 3, old.GetNodeCount())

	_, err := crm.GetEnvHealth(s.As(s.Viewer), &oaashead.CrmEnvRequest{})
	servicetest.Refused(t, err, codes.PermissionDenied, "", "list nodes")
	servicetest.Refused(t, servicetest.Err(crm.GetEnvHealth(s.As(""), &oaashead.CrmEnvRequest{})), codes.Unauthenticated, "")
}

// Whatever client a record is of, or none, the clients of all revisions that have these names can decode it.
func TestTheFormerNamesOfTheListsAreServed(t *testing.T) {
	s := serve(t)
	head := headUnit("a-head")
	head.OdgmConfig = &oaashead.OdgmConfig{Collections: []string{"carts"}}
	require.NoError(t, s.deploy(head))
	require.NoError(t, s.deployPlan(planUnit("b-plan")))
	byKubectl := s.stored("a-head")
	byKubectl.ObjectMeta = metav1.ObjectMeta{Namespace: s.Namespace, Name: "c-kubectl"}
	s.CreateAsIs(byKubectl)
	ids := []string{"a-head", "b-plan", "c-kubectl"}

	class, unit := oaasclass.NewDeploymentServiceClient(s.Conn()), oaasunit.NewDeploymentServiceClient(s.Conn())
	classes, err := class.ListDeploymentRecords(s.As(s.Viewer), &oaasclass.ListDeploymentRecordsRequest{})
	require.NoError(t, err)
	units, err := unit.ListDeploymentRecords(s.As(s.Viewer), &oaasunit.ListDeploymentRecordsRequest{})
	require.NoError(t, err)
	require.Len(t, classes.Items, len(ids))
	require.Len(t, units.Items, len(ids))
	for i, id := range ids {
		wantClass := &oaasclass.OClassDeployment{
			Key: id, PackageName: "shop", ClassKey: "shop.cart", CreatedAt: &oaasclass.Timestamp{Seconds: 1_700_000_000},
		}
		wantUnit := &oaasunit.DeploymentUnit{
			Id: id, PackageName: "shop", ClassKey: "shop.cart", CreatedAt: &oaasunit.Timestamp{Seconds: 1_700_000_000},
		}
		oneClass, err := class.GetDeploymentRecord(s.As(s.Viewer), &oaasclass.GetDeploymentRecordRequest{DeploymentId: id})
		require.NoError(t, err)
		oneUnit, err := unit.GetDeploymentRecord(s.As(s.Viewer), &oaasunit.GetDeploymentRecordRequest{DeploymentId: id})
		require.NoError(t, err)
		for want, got := range map[proto.Message]proto.Message{wantClass: classes.Items[i], wantUnit: units.Items[i]} {
			assert.True(t, proto.Equal(want, got), "no field more, known or not: %v", got)
		}
		assert.True(t, proto.Equal(wantClass, oneClass.Deployment), "%v", oneClass)
		assert.True(t, proto.Equal(wantUnit, oneUnit.Deployment), "%v", oneUnit)
	}
	some, err := class.ListDeploymentRecords(s.As(s.Viewer), &oaasclass.ListDeploymentRecordsRequest{
		ClassKey: new("shop.cart"), Limit: new(uint32(1)), Offset: new(uint32(1)),
	})
	require.NoError(t, err)
	require.Len(t, some.Items, 1)
	assert.Equal(t, "b-plan", some.Items[0].Key)
	none, err := unit.ListDeploymentRecords(s.As(s.Viewer), &oaasunit.ListDeploymentRecordsRequest{PackageName: new("other")})
	require.NoError(t, err)
	assert.Empty(t, none.Items)
	_, err = class.GetDeploymentRecord(s.As(s.Viewer), &oaasclass.GetDeploymentRecordRequest{DeploymentId: "none"})
	servicetest.Refused(t, err, codes.NotFound, "")
}

// A unit in which nothing shows the revision of its client has a status that clients of either can decode.
func TestAStatusThatEveryRevisionDecodes(t *testing.T) {
	s := serve(t)
	seed := &oaasplan.DeploymentUnit{
		Id: "seed", PackageName: "shop", ClassKey: "shop.cart", TargetEnv: "prod",
		Functions: []*oaasplan.FunctionDeploymentSpec{{FunctionKey: "add"}}, CreatedAt: &oaasplan.Timestamp{Seconds: 1_700_000_000},
	}
	require.NoError(t, s.deployPlan(seed))
	assert.NotContains(t, s.stored("seed").Annotations, v1alpha1.WireRevisionAnnotation)
	got, err := s.plan().GetDeploymentStatus(s.As(s.Viewer), &oaasplan.GetDeploymentStatusRequest{DeploymentId: "seed"})
	require.NoError(t, err)
	want := &oaasplan.OClassDeployment{Key: "seed", PackageName: "shop", ClassKey: "shop.cart", CreatedAt: seed.CreatedAt}
	assert.True(t, proto.Equal(want, got.Deployment), "%v", got)
	asHead, err := s.status("seed")
	require.NoError(t, err)
	assert.Equal(t, "seed", asHead.Deployment.Id)
	assert.Empty(t, asHead.Deployment.TargetEnv)
}

// Clients of both revisions see each other's deployments.
func TestOneServerServesBothRevisions(t *testing.T) {
	s := serve(t)
	conn := s.Conn()
	plan, head := oaasplan.NewDeploymentServiceClient(conn), oaashead.NewDeploymentServiceClient(conn)
	require.NoError(t, servicetest.Err(plan.Deploy(s.As(s.Editor), &oaasplan.DeployRequest{DeploymentUnit: planUnit("old")})))
	require.NoError(t, servicetest.Err(head.Deploy(s.As(s.Editor), &oaashead.DeployRequest{DeploymentUnit: headUnit("new")})))
	list, err := head.ListClassRuntimes(s.As(s.Viewer), &oaashead.ListClassRuntimesRequest{})
	require.NoError(t, err)
	require.Len(t, list.Items, 2)
	assert.Equal(t, "east", list.Items[1].GetClusterName())
	ofOld, err := s.status("old")
	require.NoError(t, err)
	assert.Equal(t, "old", ofOld.Deployment.Id)
	assert.Empty(t, ofOld.Deployment.TargetEnv, "it is under the number of the plan")

	// A client that has changed its revision is answered in that one from then on, and keeps its requirements.
	require.NoError(t, servicetest.Err(head.Deploy(s.As(s.Editor), &oaashead.DeployRequest{DeploymentUnit: headUnit("old")})))
	ofOld, err = s.status("old")
	require.NoError(t, err)
	assert.Equal(t, "prod", ofOld.Deployment.TargetEnv)
	assert.Equal(t, "0.9995", *s.stored("old").Spec.NFRRequirements.Availability)
}

func TestTheAliasHealthAndReflectionAreServed(t *testing.T) {
	s := serve(t)
	alias := oaashead.NewDeploymentServiceClient(wire.Conn{ClientConnInterface: renamed{s.Dial(nil)}})
	require.NoError(t, servicetest.Err(alias.Deploy(s.As(s.Editor), &oaashead.DeployRequest{DeploymentUnit: headUnit("x")})))
	got, err := alias.GetDeploymentStatus(s.As(s.Viewer), &oaashead.GetDeploymentStatusRequest{DeploymentId: "x"})
	require.NoError(t, err)
	assert.Equal(t, "x", got.Deployment.Id)
	list, err := alias.ListClassRuntimes(s.As(s.Viewer), &oaashead.ListClassRuntimesRequest{})
	require.NoError(t, err)
	assert.Len(t, list.Items, 1)

	// Neither health service needs a token; that of oaas answers within the message.
	names := []string{"", serviceName, aliasName, "oaas.health.HealthService", "oaas.health.CrmInfoService"}
	old := oaashead.NewHealthServiceClient(s.Conn())
	for _, name := range names {
		r, err := healthpb.NewHealthClient(s.Dial(nil)).Check(s.Ctx, &healthpb.HealthCheckRequest{Service: name})
		require.NoError(t, err)
		assert.Equal(t, healthpb.HealthCheckResponse_SERVING, r.Status)
		o, err := old.Check(s.Ctx, &oaashead.HealthCheckRequest{Service: name})
		require.NoError(t, err)
		assert.Equal(t, oaashead.HealthCheckResponse_SERVING, o.Status)
	}
	o, err := old.Check(s.Ctx, &oaashead.HealthCheckRequest{Service: "no.such.Service"})
	require.NoError(t, err)
	assert.Equal(t, oaashead.HealthCheckResponse_SERVICE_UNKNOWN, o.Status)

	ask := servicetest.Reflect(s.As(s.Nobody), t, s.Dial(nil))
	assert.Subset(t, ask.Services(), append(names[1:], "grpc.health.v1.Health"))
	file := func(symbol string) *descriptorpb.FileDescriptorProto {
		files := ask.Files(symbol)
		require.NotEmpty(t, files, symbol)
		for _, f := range files {
			for _, service := range f.Service {
				if f.GetPackage()+"."+service.GetName() == symbol {
					return f
				}
			}
		}
		return &descriptorpb.FileDescriptorProto{}
	}
	for _, name := range names[1:] {
		assert.NotEmpty(t, file(name).Service, name)
	}
	for _, m := range file(serviceName).MessageType {
		for _, f := range m.Field {
			if m.GetName() == "DeploymentUnit" && f.GetNumber() == 7 {
				assert.Equal(t, ".oaas.deployment.ClassFunctionBinding", f.GetTypeName(), "the form of the latest revision")
			}
		}
	}

	watch, err := old.Watch(s.Ctx, &oaashead.HealthCheckRequest{Service: serviceName})
	require.NoError(t, err)
	r, err := watch.Recv()
	require.NoError(t, err)
	require.Equal(t, oaashead.HealthCheckResponse_SERVING, r.Status)
	s.Process.Terminate()
	r, err = watch.Recv()
	require.NoError(t, err)
	assert.Equal(t, oaashead.HealthCheckResponse_NOT_SERVING, r.Status)
}

// Names that neither client has are kept and shown.
func TestFieldsForAnotherClusterAreKept(t *testing.T) {
	s := serve(t)
	u := planUnit("x")
	u.TargetCluster, u.TargetEnv = "no such cluster", "no such environment"
	require.NoError(t, s.deployPlan(u))
	r := s.stored("x")
	assert.Equal(t, "no such cluster", r.Spec.DeploymentUnit.TargetCluster)
	assert.Equal(t, "no such environment", r.Spec.TargetEnvironment)
	got, err := s.runtime("x")
	require.NoError(t, err)
	assert.Equal(t, "no such cluster", got.Deployment.GetClusterName())
	assert.Equal(t, "no such environment", got.Deployment.TargetEnvironment)
}

// From a client's Deploy to the pods' workload and back, with the controller of records.
func TestADeploymentFromItsClientToTheClusterAndBack(t *testing.T) {
	s := serveWith(t, []string{"manifests/rbac/records", "manifests/templates"}, func(c *controller.Configuration) {
		c.Controllers, c.Records.Profile = []string{"*", controller.ControllerRecords}, "dev"
	})
	unit := func(image string, replicas uint32) *oaashead.DeployRequest {
		return &oaashead.DeployRequest{DeploymentUnit: &oaashead.DeploymentUnit{
			Id: "Cart@1", ClassKey: "shop.Cart", Functions: []*oaashead.FunctionDeploymentSpec{{
				FunctionKey: "add", ProvisionConfig: &oaashead.ProvisionConfig{ContainerImage: &image, MinScale: &replicas},
			}},
		}}
	}
	require.NoError(t, servicetest.Err(s.head().Deploy(s.As(s.Editor), unit("registry.example/add:1", 0))))
	get := func() *oaashead.GetDeploymentStatusResponse {
		r, err := s.head().GetDeploymentStatus(s.As(s.Editor), &oaashead.GetDeploymentStatusRequest{DeploymentId: "Cart@1"})
		require.NoError(t, err)
		return r
	}
	s.Eventually("it is available", func() (bool, string) { return get().GetMessage() == "Available", get().GetMessage() })
	var kinds []string
	for _, ref := range get().GetStatusResourceRefs() {
		kinds = append(kinds, ref.GetKind()+"/"+ref.GetName())
	}
	assert.Equal(t, []string{"Deployment/cart-1", "Service/cart-1"}, kinds)

	require.NoError(t, servicetest.Err(s.head().Deploy(s.As(s.Editor), unit("registry.example/add:2", 0))))
	s.Eventually("the change has converged", func() (bool, string) {
		d, err := s.Kube.AppsV1().Deployments(s.Namespace).Get(s.Ctx, "cart-1", metav1.GetOptions{})
		require.NoError(t, err)
		got := d.Spec.Template.Spec.Containers[0].Image
		return got == "registry.example/add:2", got
	})

	// The unit requires an ODGM, and the profile has none.
	asks := unit("registry.example/add:1", 0)
	asks.DeploymentUnit.Id, asks.DeploymentUnit.Functions[0].ProvisionConfig.WasmModuleUrl = "wasm", new("https://registry.example/a.wasm")
	_, err := s.head().Deploy(s.As(s.Editor), asks)
	assert.Equal(t, codes.FailedPrecondition, status.Code(err), err)

	require.NoError(t, servicetest.Err(s.remove("Cart@1")))
	s.WaitCode("it is gone", codes.NotFound, func() error { return servicetest.Err(s.status("Cart@1")) })
	left, err := s.Kube.AppsV1().Deployments(s.Namespace).List(s.Ctx, metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, left.Items)
}

// requireMeasurements demands those of the record's status, which the published messages do not have, and removes them.
func requireMeasurements(t *testing.T, got proto.Message) {
	t.Helper()
	var added oaasdeployment.GetDeploymentStatusResponse
	withAdditions(t, got, &added)
	require.Len(t, added.NfrRecommendations, 1)
	assert.True(t, proto.Equal(&oaasdeployment.NfrRecommendation{
		Component: "cart-1", Dimension: "replicas", Target: 3, Basis: "cpu 1200m", ConfidencePercent: 60,
	}, added.NfrRecommendations[0]))
	assert.Equal(t, "Violated", added.NfrCompliance.GetOverallStatus())
}

// withAdditions reads a message of a published revision as Berth's, and removes from it the fields that the published one has not.
func withAdditions(t *testing.T, got, into proto.Message) {
	t.Helper()
	encoded, err := proto.Marshal(got)
	require.NoError(t, err)
	require.NoError(t, proto.Unmarshal(encoded, into))
	got.ProtoReflect().SetUnknown(nil)
}

// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/testenv"
	"berth.dev/berth/test/wire/oaashead"
	"berth.dev/berth/test/wire/oaasunit"
)

// call makes a call of one rpc, with a request that is always the same.
type call func(context.Context, ...grpc.CallOption) error

// every is one call of each rpc.
func (s *scene) every() map[string]call {
	conn := s.Conn()
	invoke := func(method string, req, reply proto.Message) call {
		return func(ctx context.Context, o ...grpc.CallOption) error {
			return conn.Invoke(ctx, method, req, reply, o...)
		}
	}
	const deployments = "/" + serviceName + "/"
	list, get := &oaashead.ListClassRuntimesRequest{}, &oaashead.GetClassRuntimeRequest{DeploymentId: "known"}
	return map[string]call{
		"Deploy": invoke(deployments+"Deploy", &oaashead.DeployRequest{DeploymentUnit: headUnit("every")}, &oaashead.DeployResponse{}),
		"GetDeploymentStatus": invoke(deployments+"GetDeploymentStatus", &oaashead.GetDeploymentStatusRequest{DeploymentId: "known"},
			&oaashead.GetDeploymentStatusResponse{}),
		"DeleteDeployment": invoke(deployments+"DeleteDeployment", &oaashead.DeleteDeploymentRequest{DeploymentId: "known"},
			&oaashead.DeleteDeploymentResponse{}),
		"ListClassRuntimes":     invoke(deployments+"ListClassRuntimes", list, &oaashead.ListClassRuntimesResponse{}),
		"GetClassRuntime":       invoke(deployments+"GetClassRuntime", get, &oaashead.GetClassRuntimeResponse{}),
		"ListDeploymentRecords": invoke(deployments+"ListDeploymentRecords", list, &oaasunit.ListDeploymentRecordsResponse{}),
		"GetDeploymentRecord":   invoke(deployments+"GetDeploymentRecord", get, &oaasunit.GetDeploymentRecordResponse{}),
		"GetEnvHealth":          invoke(oaashead.CrmInfoService_GetEnvHealth_FullMethodName, &oaashead.CrmEnvRequest{}, &oaashead.CrmEnvHealth{}),
		"Check":                 invoke(oaashead.HealthService_Check_FullMethodName, &oaashead.HealthCheckRequest{}, &oaashead.HealthCheckResponse{}),
	}
}

func TestACallIsFoundByItsCorrelation(t *testing.T) {
	s := serve(t)
	require.NoError(t, s.deploy(headUnit("known")))
	assert.NotContains(t, s.stored("known").Annotations, v1alpha1.CorrelationIDAnnotation)
	check := func(rpc, token string, want codes.Code, call call) {
		id := "id-of-" + rpc + "-" + want.String()
		var header metadata.MD
		err := call(s.As(token, "x-correlation-id", id), grpc.Header(&header))
		assert.Equal(t, want, status.Code(err), "%s: %v", rpc, err)
		assert.Equal(t, []string{id}, header.Get("x-correlation-id"), "%s: %v", rpc, err)
		if rpc != "Check" { // probes, which come every few seconds, are not logged
			assert.Contains(t, s.Process.LogTail(1000), id, rpc)
		}
	}
	for rpc, call := range s.every() {
		if rpc != "Check" {
			check(rpc, s.Nobody, codes.PermissionDenied, call)
			check(rpc, "", codes.Unauthenticated, call)
		}
		if rpc != "DeleteDeployment" {
			check(rpc, s.Editor, codes.OK, call)
		}
	}
	check("DeleteDeployment", s.Editor, codes.OK, s.every()["DeleteDeployment"])
	s.gone("known")
	check("GetDeploymentStatus", s.Editor, codes.NotFound, s.every()["GetDeploymentStatus"])

	// The annotation is that of the call that last changed something.
	assert.Equal(t, "id-of-Deploy-OK", s.stored("every").Annotations[v1alpha1.CorrelationIDAnnotation])
	again := func(class, id string) string {
		u := headUnit("every")
		u.ClassKey = class
		require.NoError(t, servicetest.Err(s.head().Deploy(s.As(s.Editor, "x-correlation-id", id), &oaashead.DeployRequest{DeploymentUnit: u})))
		return s.stored("every").Annotations[v1alpha1.CorrelationIDAnnotation]
	}
	assert.Equal(t, "id-of-Deploy-OK", again("shop.cart", "another"))
	assert.Equal(t, "another", again("new", "another"))
	u := headUnit("every")
	u.ClassKey = "newer"
	require.NoError(t, s.deploy(u))
	assert.NotContains(t, s.stored("every").Annotations, v1alpha1.CorrelationIDAnnotation, "that of another call")
}

// rawCall makes a call that has no deadline of its own: only the header for the server has one. It returns the status
// and how long it took.
func (s *scene) rawCall(token, rpc, timeout string, req proto.Message) (codes.Code, time.Duration) {
	s.T.Helper()
	body, err := proto.Marshal(req)
	require.NoError(s.T, err)
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body)))
	r, err := http.NewRequestWithContext(s.Ctx, http.MethodPost, "http://"+s.Address+"/"+serviceName+"/"+rpc, bytes.NewReader(append(frame, body...)))
	require.NoError(s.T, err)
	for key, value := range map[string]string{
		"Content-Type": "application/grpc", "Te": "trailers", "Grpc-Timeout": timeout, "Authorization": "Bearer " + token,
	} {
		r.Header.Set(key, value)
	}
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	began := time.Now()
	resp, err := (&http.Client{Transport: &http.Transport{Protocols: &p}}).Do(r)
	require.NoError(s.T, err)
	defer resp.Body.Close()
	require.NoError(s.T, servicetest.Err(io.ReadAll(resp.Body)))
	took := time.Since(began)
	text := resp.Trailer.Get("Grpc-Status") + resp.Header.Get("Grpc-Status")
	code, err := strconv.ParseUint(text, 10, 8)
	require.NoError(s.T, err, "%v %v", resp.Header, resp.Trailer)
	return codes.Code(code), took
}

// within is how much longer than its deadline a call may take.
const within = 100 * time.Millisecond

// inTime repeats a call that ends too long after its deadline, twice at most: a busy machine is late now and then, a server that does not
// keep deadlines is each time.
func inTime(deadline time.Duration, call func() time.Duration) (took time.Duration) {
	for range 3 {
		if took = call(); took < deadline+within {
			break
		}
	}
	return took
}

func TestNoCallOutlastsItsDeadlineAtAStalledAPIServer(t *testing.T) {
	s := serve(t, func(c *controller.Configuration) { c.Services.TokenCacheSeconds = 300 })
	require.NoError(t, s.deploy(headUnit("known")))
	require.NoError(t, servicetest.Err(s.runtime("known")))
	api := s.Cluster.Component(cluster.APIServer)
	api.Pause()
	defer api.Resume()
	for _, token := range []string{s.Editor, s.Nobody} { // the second is not known yet
		for rpc, req := range map[string]proto.Message{
			"Deploy":              &oaashead.DeployRequest{DeploymentUnit: headUnit("known")},
			"GetDeploymentStatus": &oaashead.GetDeploymentStatusRequest{DeploymentId: "known"},
			"DeleteDeployment":    &oaashead.DeleteDeploymentRequest{DeploymentId: "known"},
			"ListClassRuntimes":   &oaashead.ListClassRuntimesRequest{},
		} {
			for text, deadline := range map[string]time.Duration{"300m": 300 * time.Millisecond, "1S": time.Second} {
				var code codes.Code
				took := inTime(deadline, func() (took time.Duration) {
					code, took = s.rawCall(token, rpc, text, req)
					return took
				})
				assert.Less(t, took, deadline+within, rpc)
				if code == codes.Unavailable && token == s.Nobody {
					continue // calls share the review of a token, which is given up after 5 seconds
				}
				assert.Equal(t, codes.DeadlineExceeded, code, rpc)
				assert.GreaterOrEqual(t, took, deadline-10*time.Millisecond, rpc)
			}
		}
	}
	// And as a client sees it.
	const deadline = 300 * time.Millisecond
	assert.Less(t, inTime(deadline, func() time.Duration {
		ctx, cancel := context.WithTimeout(s.As(s.Editor), deadline)
		defer cancel()
		began := time.Now()
		_, err := s.head().GetDeploymentStatus(ctx, &oaashead.GetDeploymentStatusRequest{DeploymentId: "known"})
		servicetest.Refused(t, err, codes.DeadlineExceeded, "")
		return time.Since(began)
	}), deadline+within)
}

func TestAnAPIServerThatIsDownIsUnavailable(t *testing.T) {
	s := serve(t)
	require.NoError(t, s.deploy(headUnit("known")))
	require.NoError(t, s.Cluster.StopComponent(cluster.APIServer))
	calls := s.every()
	for rpc, call := range calls {
		if rpc == "Check" {
			continue
		}
		began := time.Now()
		err := call(s.As(s.Editor))
		servicetest.Refused(t, err, codes.Unavailable, "")
		assert.Less(t, time.Since(began), time.Second, rpc)
	}
	require.NoError(t, s.Cluster.StartComponent(s.Ctx, cluster.APIServer))
	for _, rpc := range []string{"Deploy", "GetDeploymentStatus", "ListClassRuntimes", "GetEnvHealth", "DeleteDeployment"} {
		s.WaitCode(rpc+" works again, without a restart", codes.OK, func() error { return calls[rpc](s.As(s.Editor)) })
	}
}

func TestAnUndeployableUnitIsRefused(t *testing.T) {
	s := serve(t, func(c *controller.Configuration) { c.Records.TemplateNamespace = "berth-system" })
	u := headUnit("x")
	u.SelectedTemplate = new("mine")
	servicetest.Refused(t, s.deploy(u), codes.FailedPrecondition, "", "selected_template", `"mine"`)
	assert.Zero(t, s.count())
	template := func(name string, aliases ...string) *v1alpha1.DeploymentTemplate {
		return &v1alpha1.DeploymentTemplate{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.DeploymentTemplateSpec{Aliases: aliases, FunctionManifests: []string{"kind: Deployment"}},
		}
	}
	own := template("own", "mine")
	s.Create(own)
	require.NoError(t, s.deploy(u), "by an alias")
	assert.Equal(t, "mine", s.stored("x").Spec.TemplateHint)
	ofAll := template("of-all")
	ofAll.Namespace = "berth-system"
	s.CreateForTest(ofAll)
	u.SelectedTemplate = new("none")
	servicetest.Refused(t, s.deploy(u), codes.FailedPrecondition, "", `there is no DeploymentTemplate "none", only `, "of-all, own")
	u.SelectedTemplate = new("of-all")
	require.NoError(t, s.deploy(u), "of the controller's namespace")
	s.Delete(own)
	u.SelectedTemplate = new("own")
	servicetest.Refused(t, s.deploy(u), codes.FailedPrecondition, "", "own")
	assert.Equal(t, "of-all", s.stored("x").Spec.TemplateHint)
}

func TestRefusalsOfTheCRDHaveTheNamesOfTheProto(t *testing.T) {
	s := serve(t)
	for field, change := range map[string]func(*oaashead.DeploymentUnit){
		"deployment_unit.id":                        func(u *oaashead.DeploymentUnit) { u.Id = "x" + strings.Repeat("ä", 2000) },
		"deployment_unit.class_key":                 func(u *oaashead.DeploymentUnit) { u.ClassKey = strings.Repeat("c", 254) },
		"deployment_unit.functions[0].function_key": func(u *oaashead.DeploymentUnit) { u.Functions[0].FunctionKey = "" },
		"deployment_unit.functions[1]":              func(u *oaashead.DeploymentUnit) { u.Functions = append(u.Functions, u.Functions[0]) },
		"deployment_unit.functions[0].nfr_requirements.availability": func(u *oaashead.DeploymentUnit) {
			u.Functions[0].NfrRequirements.Availability = new(1.5)
		},
		"deployment_unit.functions[0].provision_config.cpu_request": func(u *oaashead.DeploymentUnit) {
			u.Functions[0].ProvisionConfig.CpuRequest = new("a lot")
		},
		"deployment_unit.functions[0].provision_config.max_scale": func(u *oaashead.DeploymentUnit) {
			u.Functions[0].ProvisionConfig.MaxScale = new(uint32(1))
		},
		"deployment_unit.functions[0].provision_config.port": func(u *oaashead.DeploymentUnit) {
			u.Functions[0].ProvisionConfig.Port = new(uint32(70000))
		},
		"deployment_unit.odgm_config.replica_count": func(u *oaashead.DeploymentUnit) {
			u.OdgmConfig = &oaashead.OdgmConfig{ReplicaCount: new(uint32(0))}
		},
		"deployment_unit.telemetry.sampling_rate": func(u *oaashead.DeploymentUnit) {
			u.Telemetry = &oaashead.TelemetrySpec{SamplingRate: new(-1.0)}
		},
	} {
		u := headUnit("x")
		change(u)
		servicetest.Refused(t, s.deploy(u), codes.InvalidArgument, field)
	}
	_, err := s.head().Deploy(s.As(s.Editor), &oaashead.DeployRequest{})
	servicetest.Refused(t, err, codes.InvalidArgument, "deployment_unit", "missing")
	assert.Zero(t, s.count())
	// All of these are right.
	for id, f := range map[string]float64{"zero": 0, "one": 1, "usual": 0.99999} {
		u := planUnit(id)
		u.NfrRequirements.Availability = &f
		require.NoError(t, s.deployPlan(u))
	}
}

// What field 7 of a unit may be, on the wire.
func TestAFieldThatIsOfNoRevisionIsRefusedByItsName(t *testing.T) {
	s := serve(t)
	conn := s.Dial(nil, grpc.WithDefaultCallOptions(grpc.ForceCodec(servicetest.RawCodec{})))
	unit := func(seven ...byte) servicetest.Raw {
		u := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "x")
		return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), append(u, seven...))
	}
	for field, body := range map[string]servicetest.Raw{
		"deployment_unit.function_bindings[0]":            unit(0x3A, 2, 0x32, 0),
		"deployment_unit.function_bindings":               unit(0x38, 1),
		"deployment_unit.nfr_requirements.max_latency_ms": unit(0x3A, 2, 0x08, 0xff),
		"deployment_unit.function_bindings[1].name":       unit(0x3A, 0x02, 0x0A, 0, 0x3A, 3, 0x0A, 1, 0xff),
		"deployment_unit.nfr_requirements.availability":   unit(0x3A, 2, 0x19, 0),
	} {
		err := conn.Invoke(s.As(s.Editor), "/"+serviceName+"/Deploy", body, nil)
		servicetest.Refused(t, err, codes.InvalidArgument, field)
	}
	assert.Zero(t, s.count())
	require.NoError(t, conn.Invoke(s.As(s.Editor), "/"+serviceName+"/Deploy", unit(0x3A, 0), nil))
	assert.Equal(t, "plan", s.stored("x").Annotations[v1alpha1.WireRevisionAnnotation])
}

func TestTheNamespaceIsThatOfTheCallOrTheConfiguration(t *testing.T) {
	s := serve(t)
	other := testenv.New(t)
	require.NoError(t, s.deploy(headUnit("x")))
	assert.Equal(t, 1, s.count())
	named := s.As(s.Editor, "berth-namespace", other.Namespace)
	_, err := s.head().Deploy(named, &oaashead.DeployRequest{DeploymentUnit: headUnit("x")})
	servicetest.Refused(t, err, codes.PermissionDenied, "", other.Namespace)
	_, err = s.head().ListClassRuntimes(named, &oaashead.ListClassRuntimesRequest{})
	servicetest.Refused(t, err, codes.PermissionDenied, "", other.Namespace)
	_, err = s.head().ListClassRuntimes(s.As(s.Viewer, "berth-namespace", s.Namespace), &oaashead.ListClassRuntimesRequest{})
	require.NoError(t, err)
	_, err = s.head().ListClassRuntimes(s.As(s.Viewer, "berth-namespace", "a/b"), &oaashead.ListClassRuntimesRequest{})
	servicetest.Refused(t, err, codes.InvalidArgument, "namespace")
	_, err = s.head().ListClassRuntimes(s.As(s.Viewer, "berth-namespace", "a", "berth-namespace", "b"), &oaashead.ListClassRuntimesRequest{})
	servicetest.Refused(t, err, codes.InvalidArgument, "berth-namespace", "more than once")
}

// A caller without the right, or an unknown one, changes nothing and causes no request to the API server.
func TestUnauthorizedCallersChangeNothing(t *testing.T) {
	s := serve(t)
	require.NoError(t, s.deploy(headUnit("known")))
	before := s.stored("known")
	asked := func() int {
		return len(s.Audit(func(r testenv.Request) bool {
			return r.User == cluster.BerthControllerUser && r.Resource == "deploymentrecords"
		}))
	}
	n := asked()
	for rpc, call := range s.every() {
		if rpc == "Check" {
			continue
		}
		for _, token := range []string{"", "nonsense"} {
			servicetest.Refused(t, call(s.As(token)), codes.Unauthenticated, "")
		}
		servicetest.Refused(t, call(s.As(s.Nobody)), codes.PermissionDenied, "", "may not")
		if rpc == "Deploy" || rpc == "DeleteDeployment" {
			servicetest.Refused(t, call(s.As(s.Viewer)), codes.PermissionDenied, "", "viewer", "deploymentrecords.berth.dev")
		}
	}
	assert.Equal(t, n, asked())
	assert.Equal(t, before.ResourceVersion, s.stored("known").ResourceVersion)
	// Who may only create may not change what there is, and cannot find out about it.
	creator := s.User("creator", "create")
	_, err := s.head().Deploy(s.As(creator), &oaashead.DeployRequest{DeploymentUnit: headUnit("known")})
	servicetest.Refused(t, err, codes.PermissionDenied, "", `update deploymentrecords.berth.dev "known"`)
}

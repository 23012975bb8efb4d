// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/testenv"
)

// wired is a scene whose controller serves.
type wired struct {
	*scene
	served *servicetest.Served
}

func serve(t *testing.T, changes ...func(*controller.Configuration)) *wired {
	t.Helper()
	s := servicetest.New(t, "environments", "manifests/rbac/environments", "manifests/rbac/environments/services")
	s.AddNodes(append(cluster.Nodes("spot", 2), cluster.Nodes("on-demand", 2)...)...)
	s.Start("berth-controller", append([]func(*controller.Configuration){func(c *controller.Configuration) {
		c.Controllers = []string{controller.ControllerEnvironments}
		c.Services.Environments.Namespace = s.Namespace
	}}, changes...)...)
	logs := builders.Rule(v1alpha1.GroupName, []string{"environments/log"}, "get")
	s.Create(builders.Grant("logs", builders.ServiceAccount(s.Namespace, "editor"), logs)...)
	w := &wired{&scene{World: s.World, process: s.Process}, s}
	w.clean()
	return w
}

func (w *wired) client() schedulerv1.SchedulerServiceClient {
	return schedulerv1.NewSchedulerServiceClient(w.served.Dial(nil))
}

func TestTheSmokeClientSucceedsInSequence(t *testing.T) {
	w := serve(t)
	c, ctx := w.client(), w.served.As(w.served.Editor)
	created, err := c.CreateEnvironment(ctx, &schedulerv1.CreateEnvironmentRequest{Spec: golden()})
	require.NoError(t, err)
	env := created.GetEnvironment()
	id := env.GetId()
	require.Regexp(t, `^test-webapp-stack-[0-9a-f]{8}$`, id)
	assert.Equal(t, schedulerv1.EnvironmentStatus_ENVIRONMENT_STATUS_PENDING, env.GetStatus())
	assert.NotNil(t, env.GetCreatedAt())

	_, err = c.CreateEnvironment(ctx, &schedulerv1.CreateEnvironmentRequest{Spec: golden()})
	servicetest.Refused(t, err, codes.AlreadyExists, "", id)

	running := func(what string) *schedulerv1.Environment {
		t.Helper()
		var e *schedulerv1.Environment
		w.Eventually(what, func() (bool, string) {
			r, err := c.GetEnvironment(ctx, &schedulerv1.GetEnvironmentRequest{Id: id})
			require.NoError(t, err)
			e = r.GetEnvironment()
			return e.GetStatus() == schedulerv1.EnvironmentStatus_ENVIRONMENT_STATUS_RUNNING, e.GetStatus().String() + " " + w.get(id).Status.Message
		})
		return e
	}
	e := running("it runs")
	assert.Empty(t, e.GetSpec().GetApplicationStack().GetDatabase().GetPassword(), "never echoed")
	assert.Empty(t, e.GetSpec().GetApplicationStack().GetBackend().GetApiKeys())
	var names []string
	for _, i := range e.GetContainers() {
		names = append(names, i.GetName())
		assert.Equal(t, schedulerv1.ContainerStatus_CONTAINER_STATUS_RUNNING, i.GetStatus(), i.GetName())
		assert.NotEmpty(t, i.GetIpAddress())
	}
	assert.ElementsMatch(t, []string{"frontend", "backend", "database", "redis-cache"}, names)
	stored := w.get(id)
	services := w.names(stored, &corev1.ServiceList{})
	for _, name := range []string{"frontend", "backend", "database", "redis-cache"} {
		assert.Contains(t, services, name, "resolvable")
	}
	assert.Equal(t, "HostPathNotAllowed", condition(stored, v1alpha1.ConditionVolumesProvisioned).Reason)
	assert.Equal(t, "NotApplicable", condition(stored, v1alpha1.ConditionNetworkConfigured).Reason)

	listed, err := c.ListEnvironments(ctx, &schedulerv1.ListEnvironmentsRequest{PageSize: 10, Filters: map[string]string{"environment": "development", "team": "backend"}})
	require.NoError(t, err)
	require.Len(t, listed.GetEnvironments(), 1)
	assert.Equal(t, int32(1), listed.GetTotalCount())

	state, err := c.GetEnvironmentStatus(ctx, &schedulerv1.GetEnvironmentStatusRequest{Id: id})
	require.NoError(t, err)
	assert.Empty(t, state.GetContainerMetrics(), "nothing here measures, which is no error")

	// Only the backend, with a new version and other resources, and without its ports: its Service keeps them.
	before, service := w.templates(stored), in(w.scene, stored, "backend", &corev1.Service{}).Spec
	require.Len(t, service.Ports, 1)
	require.NoError(t, servicetest.Err(c.UpdateEnvironment(ctx, publishedUpdate(id))))
	now := w.seen(id, "it was updated", func(e *v1alpha1.Environment) bool {
		return e.Status.Phase == v1alpha1.EnvironmentRunning && e.Status.Revision == 2
	})
	assert.Equal(t, []string{"backend"}, changed(before, w.templates(now)), "only the backend rolls")
	assert.Equal(t, service, in(w.scene, now, "backend", &corev1.Service{}).Spec)

	_, err = c.StartEnvironment(ctx, &schedulerv1.StartEnvironmentRequest{Id: id})
	servicetest.Refused(t, err, codes.FailedPrecondition, "", "Running")

	require.NoError(t, servicetest.Err(c.StopEnvironment(ctx, &schedulerv1.StopEnvironmentRequest{Id: id})))
	_, err = c.StopEnvironment(ctx, &schedulerv1.StopEnvironmentRequest{Id: id})
	servicetest.Refused(t, err, codes.FailedPrecondition, "", "stop")
	w.comes(id, v1alpha1.EnvironmentStopped)
	require.NoError(t, servicetest.Err(c.RestartEnvironment(ctx, &schedulerv1.RestartEnvironmentRequest{Id: id})), "which starts it")
	running("it runs again")
	require.NoError(t, servicetest.Err(c.StopEnvironment(ctx, &schedulerv1.StopEnvironmentRequest{Id: id})))
	w.comes(id, v1alpha1.EnvironmentStopped)
	require.NoError(t, servicetest.Err(c.StartEnvironment(ctx, &schedulerv1.StartEnvironmentRequest{Id: id})))
	running("it runs again")
	require.NoError(t, servicetest.Err(c.RestartEnvironment(ctx, &schedulerv1.RestartEnvironmentRequest{Id: id})))
	w.comes(id, v1alpha1.EnvironmentRunning)

	for _, name := range []string{"webapp-backend", "backend"} {
		require.NoError(t, w.readsLogs(ctx, w.served.Dial(nil), &schedulerv1.GetEnvironmentLogsRequest{Id: id, ContainerName: name, TailLines: 100}))
	}
	logs, err := c.GetEnvironmentLogs(ctx, &schedulerv1.GetEnvironmentLogsRequest{Id: id, ContainerName: "nginx"})
	require.NoError(t, err)
	servicetest.Refused(t, servicetest.Err(logs.Recv()), codes.InvalidArgument, "container_name", "backend, webapp-backend")

	deleted, err := c.DeleteEnvironment(ctx, &schedulerv1.DeleteEnvironmentRequest{Id: id})
	require.NoError(t, err)
	assert.True(t, deleted.GetSuccess())
	w.WaitDeleted(stored)
	servicetest.Refused(t, servicetest.Err(c.GetEnvironment(ctx, &schedulerv1.GetEnvironmentRequest{Id: id})), codes.NotFound, "", id)
	w.logsSay(id)
}

// logsSay demands that every line that a controller logs about an environment has its id.
func (s *scene) logsSay(id string) {
	s.T.Helper()
	about := 0
	for line := range strings.Lines(testenv.ReadFile(s.T, s.process.LogPath())) {
		if strings.Contains(line, s.Namespace) && (strings.Contains(line, ` controllerKind="Environment" `) || strings.Contains(line, `] "Audit" `)) {
			about++
			assert.Contains(s.T, line, fmt.Sprintf(" environment=%q", id))
		}
	}
	assert.Greater(s.T, about, 5)
}

// templates are the pod templates of the components, as the API server counts their changes.
func (s *scene) templates(e *v1alpha1.Environment) map[string]corev1.PodTemplateSpec {
	s.T.Helper()
	out := map[string]corev1.PodTemplateSpec{}
	for _, d := range testenv.List(s.World, &appsv1.DeploymentList{}, client.InNamespace(e.Status.Namespace)).Items {
		out[d.Name] = d.Spec.Template
	}
	out["database"] = in(s, e, "database", &appsv1.StatefulSet{}).Spec.Template
	return out
}

// changed are the names of what is another.
func changed(before, after map[string]corev1.PodTemplateSpec) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if !assert.ObjectsAreEqual(before[name], after[name]) {
			names = append(names, name)
		}
	}
	return names
}

func TestCallersWithoutARightAreRefused(t *testing.T) {
	w := serve(t)
	c := w.client()
	_, err := c.CreateEnvironment(w.served.As(""), &schedulerv1.CreateEnvironmentRequest{Spec: golden()})
	servicetest.Refused(t, err, codes.Unauthenticated, "")
	_, err = c.CreateEnvironment(w.served.As(w.served.Viewer), &schedulerv1.CreateEnvironmentRequest{Spec: golden()})
	servicetest.Refused(t, err, codes.PermissionDenied, "", "create environments.berth.dev")
	_, err = c.ListEnvironments(w.served.As(w.served.Nobody), &schedulerv1.ListEnvironmentsRequest{})
	servicetest.Refused(t, err, codes.PermissionDenied, "", "list environments.berth.dev")
	require.NoError(t, servicetest.Err(c.ListEnvironments(w.served.As(w.served.Viewer), &schedulerv1.ListEnvironmentsRequest{})))
	for _, name := range w.Names(&corev1.SecretList{}) {
		assert.NotContains(t, name, "credentials", "nothing was made")
	}
}

func TestInvalidEnvironmentsAreRefusedAndNotCreated(t *testing.T) {
	w := serve(t)
	c, ctx := w.client(), w.served.As(w.served.Editor)
	type (
		spec      = schedulerv1.EnvironmentSpecification
		container = schedulerv1.ContainerConfig
	)
	const backend = "spec.application_stack.backend.container"
	for name, tc := range map[string]struct {
		change func(s *spec, backend *container)
		field  string
	}{
		"no stack": {func(s *spec, _ *container) { s.ApplicationStack = nil }, "spec.application_stack"},
		"no image": {
			func(s *spec, _ *container) { s.ApplicationStack.Frontend.Container.Image = "" },
			"spec.application_stack.frontend.container.image",
		},
		"a port":        {func(_ *spec, c *container) { c.Ports[0].ContainerPort = 70000 }, backend + ".ports[0].container_port"},
		"a protocol":    {func(_ *spec, c *container) { c.Ports[0].Protocol = "sctp" }, backend + ".ports[0].protocol"},
		"resources":     {func(_ *spec, c *container) { c.Resources.MemoryMb = -1 }, backend + ".resources.memory_mb"},
		"the same port": {func(_ *spec, c *container) { c.Ports[0].HostPort = 8080 }, ""},
		"a service name": {func(s *spec, _ *container) {
			s.ApplicationStack.AdditionalServices["Not A Name"] = s.ApplicationStack.AdditionalServices["redis-cache"]
		}, ""},
		"no name": {func(s *spec, _ *container) { s.Name = "" }, "spec.name"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := golden()
			tc.change(spec, spec.GetApplicationStack().GetBackend().GetContainer())
			_, err := c.CreateEnvironment(ctx, &schedulerv1.CreateEnvironmentRequest{Spec: spec})
			servicetest.Refused(t, err, codes.InvalidArgument, tc.field)
		})
	}
	assert.Empty(t, w.Names(&v1alpha1.EnvironmentList{}), "nothing was made")

	require.NoError(t, servicetest.Err(c.CreateEnvironment(ctx, &schedulerv1.CreateEnvironmentRequest{Spec: golden()})))
	second := golden()
	second.Name = "another"
	_, err := c.CreateEnvironment(ctx, &schedulerv1.CreateEnvironmentRequest{Spec: second})
	servicetest.Refused(t, err, codes.AlreadyExists, "", "8080", "test-webapp-stack-")
}

func TestTheSampleRunsAsDocumented(t *testing.T) {
	s := share(t)
	s.Tool(cluster.Kubectl, "--namespace", s.Namespace, "apply", "-f", "manifests/samples/environment.yaml")
	e := s.comes("shop", v1alpha1.EnvironmentRunning)
	on := map[string]int{}
	for _, p := range s.pods(e, "backend") {
		on[s.runsOn(&p)]++
	}
	assert.Equal(t, map[string]int{"spot": 2, "on-demand": 2}, on)
	for _, p := range s.pods(e, "database") {
		assert.Equal(t, "on-demand", s.runsOn(&p))
	}
	assert.Equal(t, []string{"database-data"}, s.names(e, &corev1.PersistentVolumeClaimList{}))
	assert.Equal(t, []string{"frontend"}, s.names(e, &networkingv1.IngressList{}))
}

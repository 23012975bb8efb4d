// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/services/server"
	"berth.dev/berth/test/servertest"
)

// What is written into an Environment is read back, but for what must not be.
func TestASpecificationIsReadBackWithoutItsSecrets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawSpec(t)
		a, err := fromWire(in)
		require.NoError(t, err)
		require.NoError(t, check(&a.spec))
		b, err := json.Marshal(a.spec)
		require.NoError(t, err)
		var stored v1alpha1.EnvironmentSpec
		require.NoError(t, json.Unmarshal(b, &stored))
		require.Empty(t, cmp.Diff(withoutSecrets(in), specToWire(&stored), protocmp.Transform()))

		again, err := fromWire(specToWire(&stored))
		require.NoError(t, err)
		require.Equal(t, stored, again.spec, "who sends back what was read changes nothing")
		require.Empty(t, again.credentials.database)
		require.Empty(t, again.credentials.backend)
	})
}

func TestTheSmokeClientsSpecification(t *testing.T) {
	a, err := fromWire(smoke())
	require.NoError(t, err)
	require.NoError(t, check(&a.spec))
	assert.Equal(t, credentials{
		database: map[string]string{"databasePassword": "hunter2"},
		backend:  map[string]string{"databaseConnectionString": "postgresql://user:hunter2@database:5432/app", "apiKeys.JWT_SECRET": "hunter3"},
	}, a.credentials)
	b, err := json.Marshal(a.spec)
	require.NoError(t, err)
	assert.NotContains(t, string(b), "hunter")
	assert.Equal(t, "500m", a.spec.Stack.Frontend.Container.Resources.CPU)
	assert.Equal(t, "512Mi", a.spec.Stack.Frontend.Container.Resources.Memory)
	assert.Equal(t, "redis-cache", a.spec.Stack.AdditionalServices[0].Name)
}

// The password of a database is one of the credentials in whichever way it is given, and never in a spec or an answer.
func TestAPasswordThatIsAVariable(t *testing.T) {
	variable := func(password, variable string) (*requested, error) {
		spec := smoke()
		d := spec.GetApplicationStack().GetDatabase()
		d.Password, d.Container.EnvironmentVariables["POSTGRES_PASSWORD"] = password, variable
		return fromWire(spec)
	}
	for name, given := range map[string][2]string{"both": {"hunter2", "hunter2"}, "a variable": {"", "hunter2"}, "a field": {"hunter2", ""}} {
		a, err := variable(given[0], given[1])
		require.NoError(t, err, name)
		assert.Equal(t, map[string]string{"databasePassword": "hunter2"}, a.credentials.database, name)
		assert.Equal(t, map[string]v1alpha1.ConfigValue{"PGDATA": "/var/lib/postgresql/data/pgdata"}, a.spec.Stack.Database.Container.Env, name)
	}
	_, err := variable("hunter2", "hunter3")
	requireCode(t, codes.InvalidArgument, err)
	assert.Equal(t, "spec.application_stack.database.container.environment_variables[POSTGRES_PASSWORD]", server.AsError(err).Violations[0].Field)
	assert.NotContains(t, err.Error(), "hunter")

	// An object that was written in another way may have it. No answer does, nor what an update makes of it.
	a, err := variable("hunter2", "")
	require.NoError(t, err)
	a.spec.Stack.Database.Container.Env["POSTGRES_PASSWORD"] = "hunter2"
	assert.NotContains(t, specToWire(&a.spec).String(), "hunter")
	b, err := json.Marshal(merge(&a.spec, &v1alpha1.EnvironmentSpec{Description: "other"}))
	require.NoError(t, err)
	assert.NotContains(t, string(b), "hunter")
	assert.Contains(t, string(b), "pgdata")
}

// violations are the fields that a specification is refused for.
func violations(t require.TestingT, spec *schedulerv1.EnvironmentSpecification) []string {
	a, err := fromWire(spec)
	if err == nil {
		err = check(&a.spec)
	}
	if err == nil {
		return nil
	}
	e := server.AsError(err)
	require.Equal(t, codes.InvalidArgument, e.Code)
	var fields []string
	for _, v := range e.Violations {
		fields = append(fields, v.Field)
	}
	return fields
}

func TestAViolationNamesItsField(t *testing.T) {
	type stack = *schedulerv1.ApplicationStack
	const at = "spec.application_stack."
	for name, tc := range map[string]struct {
		change func(s stack)
		want   string
	}{
		"no image":                 {func(s stack) { s.Frontend.Container.Image = "" }, "frontend.container.image"},
		"a blank image":            {func(s stack) { s.Backend.Container.Image = " " }, "backend.container.image"},
		"no container":             {func(s stack) { s.Database.Container = nil }, "database.container"},
		"port 0":                   {func(s stack) { s.Frontend.Container.Ports[0].ContainerPort = 0 }, "frontend.container.ports[0].container_port"},
		"a port too high":          {func(s stack) { s.Frontend.Container.Ports[0].ContainerPort = 65536 }, "frontend.container.ports[0].container_port"},
		"a negative host port":     {func(s stack) { s.Backend.Container.Ports[0].HostPort = -1 }, "backend.container.ports[0].host_port"},
		"a host port too high":     {func(s stack) { s.Backend.Container.Ports[0].HostPort = 65536 }, "backend.container.ports[0].host_port"},
		"a bad protocol":           {func(s stack) { s.Backend.Container.Ports[0].Protocol = "sctp" }, "backend.container.ports[0].protocol"},
		"a host port twice":        {func(s stack) { s.Backend.Container.Ports[0].HostPort = 8080 }, "frontend.container.ports[0].host_port"},
		"negative cores":           {func(s stack) { s.Backend.Container.Resources.CpuCores = -0.1 }, "backend.container.resources.cpu_cores"},
		"cores that are no number": {func(s stack) { s.Backend.Container.Resources.CpuCores = math.NaN() }, "backend.container.resources.cpu_cores"},
		"infinite cores":           {func(s stack) { s.Backend.Container.Resources.CpuCores = math.Inf(1) }, "backend.container.resources.cpu_cores"},
		"negative memory":          {func(s stack) { s.Backend.Container.Resources.MemoryMb = -1 }, "backend.container.resources.memory_mb"},
		"far too much disk":        {func(s stack) { s.Backend.Container.Resources.DiskMb = math.MaxInt64 }, "backend.container.resources.disk_mb"},
		"a negative interval":      {func(s stack) { s.Backend.Container.HealthCheck.IntervalSeconds = -1 }, "backend.container.health_check.interval_seconds"},
		"too many retries":         {func(s stack) { s.Backend.Container.HealthCheck.Retries = 1001 }, "backend.container.health_check.retries"},
		"no check":                 {func(s stack) { s.Backend.Container.HealthCheck.Command = nil }, "backend.container.health_check.command"},
		"an unknown policy":        {func(s stack) { s.Backend.Container.RestartPolicy = 9 }, "backend.container.restart_policy"},
		"a database that ends":     {func(s stack) { s.Database.Container.RestartPolicy = 1 }, "database.container.restart_policy"},
		"a variable with a blank": {
			func(s stack) { s.Backend.Container.EnvironmentVariables = map[string]string{"A B": ""} }, "backend.container.environment_variables[A B]",
		},
		"a key with a blank":     {func(s stack) { s.Backend.ApiKeys = map[string]string{"A B": ""} }, "backend.api_keys[A B]"},
		"a service that is none": {func(s stack) { s.AdditionalServices["Redis_1"] = s.AdditionalServices["redis-cache"] }, "additional_services[Redis_1]"},
		"a service named twice": {
			func(s stack) { s.AdditionalServices["database"] = proto.CloneOf(s.AdditionalServices["redis-cache"]) }, "additional_services[database]",
		},
		"a service without an image": {func(s stack) { s.AdditionalServices["redis-cache"].Image = "" }, "additional_services[redis-cache].image"},
		"a service's bad path": {
			func(s stack) {
				s.AdditionalServices["redis-cache"].Volumes = []*schedulerv1.VolumeMount{{MountPath: "data"}}
			}, "additional_services[redis-cache].volumes[0].mount_path",
		},
		"a bad domain": {func(s stack) { s.Frontend.Domains = []string{"a", "b c"} }, "frontend.domains[1]"},
		"a container port twice": {func(s stack) {
			s.Frontend.Container.Ports = append(s.Frontend.Container.Ports, &schedulerv1.PortMapping{ContainerPort: 80, Protocol: "TCP"})
		}, "frontend.container.ports[1].container_port"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := smoke()
			tc.change(spec.GetApplicationStack())
			assert.Contains(t, violations(t, spec), at+tc.want)
		})
	}
	t.Run("nothing wrong", func(t *testing.T) {
		spec := smoke()
		spec.GetApplicationStack().GetFrontend().GetContainer().Ports = append(spec.GetApplicationStack().GetFrontend().GetContainer().GetPorts(),
			&schedulerv1.PortMapping{ContainerPort: 80, HostPort: 8080, Protocol: "UDP"}, &schedulerv1.PortMapping{ContainerPort: 81})
		assert.Empty(t, violations(t, spec), "the same port of another protocol is another port")
	})
	assert.Equal(t, []string{"spec"}, violations(t, nil))
	assert.Equal(t, []string{"spec.application_stack"}, violations(t, &schedulerv1.EnvironmentSpecification{Name: "x"}))
}

func TestCoresAreRoundedUpFromWhatWasWritten(t *testing.T) {
	for in, want := range map[float64]string{
		0: "", 0.1: "100m", 0.5: "500m", 2: "2", 1.001: "1001m", 1.0001: "1001m", 0.29: "290m", 4.35: "4350m", 1e-9: "1m", 5e-324: "1m", 1e6: "1M",
	} {
		var r reader
		assert.Equal(t, want, r.cores("x", in), "%v", in)
		assert.Empty(t, r.violations)
	}
}

func TestWhatKubectlWroteIsReadAsWell(t *testing.T) {
	assert.InDelta(t, 0.001, coresOf("100u"), 0)
	assert.InDelta(t, 1.5, coresOf("1500m"), 0)
	assert.EqualValues(t, 954, mebibytesOf("1G"))
	assert.EqualValues(t, 2048, mebibytesOf("2Gi"))
	assert.Zero(t, mebibytesOf("nothing"))
	assert.Positive(t, mebibytesOf("9E"))
}

func TestNames(t *testing.T) {
	for name, fine := range map[string]bool{
		"shop": true, "My Shop 2": true, strings.Repeat("x", 63): true, strings.Repeat("ä", 63): true, "日本": true,
		"": false, strings.Repeat("x", 64): false, " shop": false, "a\nb": false, "a\x00": false, "!?": false,
	} {
		id, err := idOf("default", name)
		assert.Equal(t, fine, err == nil, "%q: %v", name, err)
		if err != nil {
			assert.Equal(t, "spec.name", server.AsError(err).Violations[0].Field)
		} else {
			assert.LessOrEqual(t, len(id), maxID)
		}
	}
}

// Any bytes are a specification that is read, and read back, or one that is refused by the name of a field.
func FuzzSpecification(f *testing.F) {
	good, err := proto.Marshal(&schedulerv1.CreateEnvironmentRequest{Spec: smoke()})
	require.NoError(f, err)
	f.Add(good)
	f.Add(good[:len(good)-3])
	f.Add([]byte{0x0a, 0x00})
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		var req schedulerv1.CreateEnvironmentRequest
		if err := server.Decode(b, &req); err != nil {
			servertest.RequireInvalid(t, err)
			return
		}
		a, err := fromWire(req.GetSpec())
		if err == nil {
			err = check(&a.spec)
		}
		if err != nil {
			servertest.RequireInvalid(t, err)
			return
		}
		once := specToWire(&a.spec)
		again, err := fromWire(once)
		require.NoError(t, err)
		require.True(t, sameSpec(&a.spec, &again.spec), "%s", cmp.Diff(a.spec, again.spec))
		require.Empty(t, cmp.Diff(once, specToWire(&again.spec), protocmp.Transform()))
		require.True(t, again.credentials.empty())
	})
}

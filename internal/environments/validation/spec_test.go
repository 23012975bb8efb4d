// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/generators"
)

// wrong is a change that makes a valid spec invalid: where, and a word of the message.
type wrong struct {
	change      func(*v1alpha1.EnvironmentSpec)
	field, word string
}

func refuses(t *testing.T, cases map[string]wrong) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec := &builders.CompleteEnvironment().Spec
			c.change(spec)
			all := Spec(spec)
			require.Len(t, all, 1, "%v", all)
			assert.Equal(t, c.field, all[0].Field)
			assert.Contains(t, all[0].Error(), c.word)
		})
	}
}

func backend(change func(*v1alpha1.EnvironmentContainer)) func(*v1alpha1.EnvironmentSpec) {
	return func(s *v1alpha1.EnvironmentSpec) { change(&s.Stack.Backend.Container) }
}

func TestValidateStack(t *testing.T) {
	type spec = v1alpha1.EnvironmentSpec
	service := func(name string) func(*spec) { return func(s *spec) { s.Stack.AdditionalServices[0].Name = name } }
	refuses(t, map[string]wrong{
		"no stack":                       {func(s *spec) { s.Stack = v1alpha1.ApplicationStack{Name: "web"} }, "spec.stack", "must have a component"},
		"a service without a name":       {service(""), "spec.stack.additionalServices[0].name", "must"},
		"a service with capitals":        {service("Redis"), "spec.stack.additionalServices[0].name", "lower case"},
		"a service that begins so":       {service("7up"), "spec.stack.additionalServices[0].name", "alphabetic"},
		"a service with a long name":     {service(strings.Repeat("a", 53)), "spec.stack.additionalServices[0].name", "52"},
		"a service called as a part":     {service("backend"), "spec.stack.additionalServices[0].name", "every stack"},
		"a service called as another's":  {service("frontend-outside"), "spec.stack.additionalServices[0].name", "Service of frontend"},
		"a service called as those pods": {service("database-pods"), "spec.stack.additionalServices[0].name", "Service of database"},
		"two services of a name": {func(s *spec) {
			s.Stack.AdditionalServices = append(s.Stack.AdditionalServices, v1alpha1.AdditionalService{Name: "redis-cache", Container: v1alpha1.EnvironmentContainer{Image: "redis"}})
		}, "spec.stack.additionalServices[1].name", "Duplicate"},
		"negative replicas":               {func(s *spec) { s.Stack.Backend.Replicas = new(int32(-1)) }, "spec.stack.backend.replicas", "from 0 to 1000"},
		"too many replicas":               {func(s *spec) { s.Stack.Frontend.Replicas = new(int32(1001)) }, "spec.stack.frontend.replicas", "from 0 to 1000"},
		"negative replicas of a service":  {func(s *spec) { s.Stack.AdditionalServices[0].Replicas = new(int32(-1)) }, "spec.stack.additionalServices[0].replicas", "from 0"},
		"a bad domain":                    {func(s *spec) { s.Stack.Frontend.Domains[1] = "Not A Domain" }, "spec.stack.frontend.domains[1]", "subdomain"},
		"a bad wildcard":                  {func(s *spec) { s.Stack.Frontend.Domains[1] = "*.a.*" }, "spec.stack.frontend.domains[1]", "wildcard"},
		"a domain twice":                  {func(s *spec) { s.Stack.Frontend.Domains[1] = "shop.example" }, "spec.stack.frontend.domains[1]", "Duplicate"},
		"domains that lead nowhere":       {func(s *spec) { s.Stack.Frontend.Container.Ports[0].Protocol = v1alpha1.ProtocolUDP }, "spec.stack.frontend.container.ports", "TCP"},
		"a database that ends":            {func(s *spec) { s.Stack.Database.Container.RestartPolicy = v1alpha1.RestartNo }, "spec.stack.database.container.restartPolicy", "UnlessStopped"},
		"a storage path that climbs":      {func(s *spec) { s.Stack.Database.StoragePath = "/a/../b" }, "spec.stack.database.storagePath", "absolute"},
		"a storage path that is the root": {func(s *spec) { s.Stack.Database.StoragePath = "//" }, "spec.stack.database.storagePath", "absolute"},
		"a zero byte":                     {func(s *spec) { s.Stack.Database.Username = "a\x00b" }, "spec.stack.database.username", "zero byte"},
		"a Secret of another namespace":   {func(s *spec) { s.Stack.Database.SecretRef = &v1alpha1.EnvironmentSecret{Name: "../other"} }, "spec.stack.database.secretRef.name", "subdomain"},
		"a Secret without a name":         {func(s *spec) { s.Stack.Backend.SecretRef = &v1alpha1.EnvironmentSecret{} }, "spec.stack.backend.secretRef.name", "subdomain"},
		"more than all on spot":           {func(s *spec) { s.Placement = &v1alpha1.EnvironmentPlacement{SpotPercent: new(int32(101))} }, "spec.placement.spotPercent", "from 0 to 100"},
		"less than none on demand":        {func(s *spec) { s.Placement = &v1alpha1.EnvironmentPlacement{MinOnDemand: new(int32(-1))} }, "spec.placement.minOnDemand", "from 0 to 1000"},
		"a host port twice":               {func(s *spec) { s.Stack.Backend.Container.Ports[0].HostPort = 8080 }, "spec.stack.frontend.container.ports[0].hostPort", "Duplicate"},
		"a host port that a service has":  {func(s *spec) { s.Stack.AdditionalServices[0].Container.Ports[0].HostPort = 8080 }, "spec.stack.frontend.container.ports[0].hostPort", "Duplicate"},
		"a missing image of the database": {func(s *spec) { s.Stack.Database.Container.Image = "" }, "spec.stack.database.container.image", "Required"},
		"a missing image of the frontend": {func(s *spec) { s.Stack.Frontend.Container.Image = "" }, "spec.stack.frontend.container.image", "Required"},
		"a missing image of a service":    {func(s *spec) { s.Stack.AdditionalServices[0].Container.Image = "" }, "spec.stack.additionalServices[0].container.image", "Required"},
		"a claim of two components": {func(s *spec) {
			s.Stack.AdditionalServices[0].Container.Volumes = []v1alpha1.EnvironmentVolume{{Name: "data", MountPath: "/data"}}
			s.Stack.AdditionalServices = append(s.Stack.AdditionalServices, v1alpha1.AdditionalService{Name: "redis", Container: v1alpha1.EnvironmentContainer{
				Image: "redis", Volumes: []v1alpha1.EnvironmentVolume{{MountPath: "/own"}, {Name: "cache-data", MountPath: "/data"}},
			}})
		}, "spec.stack.additionalServices[1].container.volumes[1].name", "redis-cache"},
	})
}

func checkHTTP(g v1alpha1.EnvironmentHTTPGet) func(*v1alpha1.EnvironmentHealthCheck) {
	return func(h *v1alpha1.EnvironmentHealthCheck) { *h = v1alpha1.EnvironmentHealthCheck{HTTPGet: &g} }
}

func checkTCP(port int32) func(*v1alpha1.EnvironmentHealthCheck) {
	return func(h *v1alpha1.EnvironmentHealthCheck) {
		*h = v1alpha1.EnvironmentHealthCheck{TCPSocket: &v1alpha1.EnvironmentTCPSocket{Port: port}}
	}
}

func checkGRPC(port int32) func(*v1alpha1.EnvironmentHealthCheck) {
	return func(h *v1alpha1.EnvironmentHealthCheck) {
		*h = v1alpha1.EnvironmentHealthCheck{GRPC: &v1alpha1.EnvironmentGRPCCheck{Port: port}}
	}
}

func TestValidateContainer(t *testing.T) {
	type container = v1alpha1.EnvironmentContainer
	const at = "spec.stack.backend.container."
	volume := func(v v1alpha1.EnvironmentVolume) func(*v1alpha1.EnvironmentSpec) {
		return backend(func(c *container) { c.Volumes = []v1alpha1.EnvironmentVolume{{Name: "a", MountPath: "/a"}, v} })
	}
	check := func(change func(*v1alpha1.EnvironmentHealthCheck)) func(*v1alpha1.EnvironmentSpec) {
		return backend(func(c *container) { change(c.HealthCheck) })
	}
	port := func(p v1alpha1.EnvironmentPort) func(*v1alpha1.EnvironmentSpec) {
		return backend(func(c *container) { c.Ports = append(c.Ports, p) })
	}
	refuses(t, map[string]wrong{
		"no image":                    {backend(func(c *container) { c.Image = "" }), at + "image", "Required"},
		"an image with a blank":       {backend(func(c *container) { c.Image = "node: 22" }), at + "image", "blanks"},
		"port 0":                      {port(v1alpha1.EnvironmentPort{}), at + "ports[1].containerPort", "from 1 to 65535"},
		"a negative port":             {port(v1alpha1.EnvironmentPort{ContainerPort: -1}), at + "ports[1].containerPort", "from 1 to 65535"},
		"a port above all":            {port(v1alpha1.EnvironmentPort{ContainerPort: 65536}), at + "ports[1].containerPort", "from 1 to 65535"},
		"a host port above all":       {port(v1alpha1.EnvironmentPort{ContainerPort: 1, HostPort: 65536}), at + "ports[1].hostPort", "65535"},
		"a negative host port":        {port(v1alpha1.EnvironmentPort{ContainerPort: 1, HostPort: -1}), at + "ports[1].hostPort", "0 to have one allocated"},
		"a port twice":                {port(v1alpha1.EnvironmentPort{ContainerPort: 3000}), at + "ports[1].containerPort", "Duplicate"},
		"a bad protocol":              {port(v1alpha1.EnvironmentPort{ContainerPort: 1, Protocol: "SCTP"}), at + "ports[1].protocol", `"TCP", "UDP"`},
		"a protocol in small letters": {port(v1alpha1.EnvironmentPort{ContainerPort: 1, Protocol: "tcp"}), at + "ports[1].protocol", `"TCP", "UDP"`},
		"negative processors":         {backend(func(c *container) { c.Resources.CPU = "-1" }), at + "resources.cpu", "above 0"},
		"negative memory":             {backend(func(c *container) { c.Resources.Memory = "-1Mi" }), at + "resources.memory", "above 0"},
		"a disk that is no quantity":  {backend(func(c *container) { c.Resources.Disk = "much" }), at + "resources.disk", "quantity"},
		"no memory":                   {backend(func(c *container) { c.Resources.Memory = "0" }), at + "resources.memory", "above 0"},
		"a bad variable":              {backend(func(c *container) { c.Env["A=B"] = "" }), at + "env[A=B]", "environment variable"},
		"a variable with a zero byte": {backend(func(c *container) { c.Env["A"] = "\x00" }), at + "env[A]", "zero byte"},
		"a bad restart policy":        {backend(func(c *container) { c.RestartPolicy = "Sometimes" }), at + "restartPolicy", "OnFailure"},
		"a volume nowhere":            {volume(v1alpha1.EnvironmentVolume{}), at + "volumes[1].mountPath", "Required"},
		"a relative volume":           {volume(v1alpha1.EnvironmentVolume{MountPath: "b"}), at + "volumes[1].mountPath", "absolute"},
		"a volume with a colon":       {volume(v1alpha1.EnvironmentVolume{MountPath: "/b:c"}), at + "volumes[1].mountPath", "without ':'"},
		"a volume that is the root":   {volume(v1alpha1.EnvironmentVolume{MountPath: "/./"}), at + "volumes[1].mountPath", "absolute"},
		"two volumes in a place":      {volume(v1alpha1.EnvironmentVolume{MountPath: "/a/"}), at + "volumes[1].mountPath", "Duplicate"},
		"two volumes of a name":       {volume(v1alpha1.EnvironmentVolume{Name: "a", MountPath: "/b"}), at + "volumes[1].name", "Duplicate"},
		"a bad name of a volume":      {volume(v1alpha1.EnvironmentVolume{Name: "-b", MountPath: "/b"}), at + "volumes[1].name", "40"},
		"a long name of a volume":     {volume(v1alpha1.EnvironmentVolume{Name: strings.Repeat("b", 41), MountPath: "/b"}), at + "volumes[1].name", "40"},
		"a directory that climbs":     {volume(v1alpha1.EnvironmentVolume{MountPath: "/b", HostPath: "/srv/../etc"}), at + "volumes[1].hostPath", "'..'"},
		"a check of nothing":          {check(func(h *v1alpha1.EnvironmentHealthCheck) { h.Command = nil }), at + "healthCheck.command", "Required"},
		"two checks in one": {check(func(h *v1alpha1.EnvironmentHealthCheck) {
			h.TCPSocket = &v1alpha1.EnvironmentTCPSocket{Port: 1}
		}), at + "healthCheck", "command, tcpSocket"},
		"a check of port 0":               {check(checkHTTP(v1alpha1.EnvironmentHTTPGet{})), at + "healthCheck.httpGet.port", "from 1 to 65535"},
		"a check of a relative path":      {check(checkHTTP(v1alpha1.EnvironmentHTTPGet{Port: 1, Path: "a"})), at + "healthCheck.httpGet.path", "begin with '/'"},
		"a check of an unknown scheme":    {check(checkHTTP(v1alpha1.EnvironmentHTTPGet{Port: 1, Scheme: "ftp"})), at + "healthCheck.httpGet.scheme", `"HTTP"`},
		"a check of a port above all":     {check(checkTCP(65536)), at + "healthCheck.tcpSocket.port", "from 1 to 65535"},
		"a check of a negative gRPC port": {check(checkGRPC(-1)), at + "healthCheck.grpc.port", "from 1 to 65535"},
		"a check of CMD alone":            {check(func(h *v1alpha1.EnvironmentHealthCheck) { h.Command = []string{"CMD"} }), at + "healthCheck.command", "after CMD"},
		"a check of the shell alone":      {check(func(h *v1alpha1.EnvironmentHealthCheck) { h.Command = []string{"CMD-SHELL"} }), at + "healthCheck.command", "after CMD-SHELL"},
		"two commands for the shell":      {check(func(h *v1alpha1.EnvironmentHealthCheck) { h.Command = []string{"CMD-SHELL", "a", "b"} }), at + "healthCheck.command", "CMD-SHELL"},
		"a negative interval":             {check(func(h *v1alpha1.EnvironmentHealthCheck) { h.IntervalSeconds = -1 }), at + "healthCheck.intervalSeconds", "from 0 to 86400"},
		"a long timeout":                  {check(func(h *v1alpha1.EnvironmentHealthCheck) { h.TimeoutSeconds = 86401 }), at + "healthCheck.timeoutSeconds", "from 0 to 86400"},
		"many retries":                    {check(func(h *v1alpha1.EnvironmentHealthCheck) { h.Retries = 1001 }), at + "healthCheck.retries", "from 0 to 1000"},
		"a negative start":                {check(func(h *v1alpha1.EnvironmentHealthCheck) { h.StartPeriodSeconds = -1 }), at + "healthCheck.startPeriodSeconds", "from 0 to 86400"},
	})
}

// What is next to a limit is within it.
func TestValidateAccepts(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.EnvironmentSpec){
		"the same port of two protocols": func(s *v1alpha1.EnvironmentSpec) {
			s.Stack.Frontend.Container.Ports = append(s.Stack.Frontend.Container.Ports, v1alpha1.EnvironmentPort{ContainerPort: 80, HostPort: 8080, Protocol: v1alpha1.ProtocolUDP})
		},
		"ports that are allocated": func(s *v1alpha1.EnvironmentSpec) {
			s.Stack.Frontend.Container.Ports[0].HostPort = 0
		},
		"the last port": backend(func(c *v1alpha1.EnvironmentContainer) {
			c.Ports = []v1alpha1.EnvironmentPort{{ContainerPort: 65535, HostPort: 65535}}
		}),
		"the longest name of a service": func(s *v1alpha1.EnvironmentSpec) { s.Stack.AdditionalServices[0].Name = strings.Repeat("a", 52) },
		"the longest name of a volume": backend(func(c *v1alpha1.EnvironmentContainer) {
			c.Volumes = []v1alpha1.EnvironmentVolume{{Name: strings.Repeat("b", 40), MountPath: "/b"}}
		}),
		"a service beside the database's pods that are not there": func(s *v1alpha1.EnvironmentSpec) {
			s.Stack.Database, s.Stack.AdditionalServices[0].Name = nil, "database-pods"
		},
		"the limits of numbers": func(s *v1alpha1.EnvironmentSpec) {
			s.Stack.Backend.Replicas, s.Stack.Frontend.Replicas = new(int32(0)), new(int32(1000))
			s.Placement = &v1alpha1.EnvironmentPlacement{SpotPercent: new(int32(100)), MinOnDemand: new(int32(0))}
			s.Stack.Backend.Container.HealthCheck.IntervalSeconds = 86400
		},
		"a check of nothing, explicitly": backend(func(c *v1alpha1.EnvironmentContainer) { c.HealthCheck.Command = []string{"NONE"} }),
	} {
		t.Run(name, func(t *testing.T) {
			spec := &builders.CompleteEnvironment().Spec
			change(spec)
			assert.Empty(t, Spec(spec))
		})
	}
}

func TestACompleteEnvironmentIsValid(t *testing.T) {
	require.Empty(t, Spec(&builders.CompleteEnvironment().Spec))
}

// All errors are returned at once.
func TestValidateReturnsAllErrors(t *testing.T) {
	spec := &builders.CompleteEnvironment().Spec
	spec.Stack.Backend.Container.Image = ""
	spec.Stack.Frontend.Container.Ports[0].ContainerPort = 0
	spec.Stack.AdditionalServices[0].Container.Resources = &v1alpha1.EnvironmentResources{CPU: "-1", Memory: "-1", Disk: "-1"}
	var fields []string
	for _, e := range Spec(spec) {
		fields = append(fields, e.Field)
	}
	assert.ElementsMatch(t, []string{
		"spec.stack.backend.container.image", "spec.stack.frontend.container.ports[0].containerPort",
		"spec.stack.additionalServices[0].container.resources.cpu", "spec.stack.additionalServices[0].container.resources.memory",
		"spec.stack.additionalServices[0].container.resources.disk",
	}, fields)
}

// Two services may have one name, which is an error by itself.
func TestAnErrorHasTheIndexOfItsService(t *testing.T) {
	spec := &builders.CompleteEnvironment().Spec
	spec.Stack.AdditionalServices[0].Container.Ports[0].HostPort = 9000
	spec.Stack.AdditionalServices = append(spec.Stack.AdditionalServices, *spec.Stack.AdditionalServices[0].DeepCopy())
	var fields []string
	for _, e := range Spec(spec) {
		fields = append(fields, e.Field)
	}
	assert.ElementsMatch(t, []string{
		"spec.stack.additionalServices[1].name", "spec.stack.additionalServices[1].container.ports[0].hostPort",
	}, fields)
}

// A spec is looked at, and not changed; its errors are the same each time.
func TestValidateIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := &v1alpha1.EnvironmentSpec{Stack: generators.Stack(t)}
		before := spec.DeepCopy()
		all := Spec(spec)
		assert.Equal(t, before, spec)
		assert.Equal(t, all, Spec(spec))
	})
}

// Every placement that is valid is one that the API server accepts, and no other.
func TestPlacementIsValidated(t *testing.T) {
	for value, ok := range map[string]bool{"": true, "eu-1a": true, "eu/1a": false, "-a": false} {
		errs := validatePlacement(nil, &v1alpha1.EnvironmentPlacement{PreferredZone: value})
		assert.Equal(t, ok, len(errs) == 0, "%q: %v", value, errs)
	}
	for value, ok := range map[v1alpha1.EnvironmentColocation]bool{"": true, "None": true, "SameZone": true, "samezone": false} {
		errs := validatePlacement(nil, &v1alpha1.EnvironmentPlacement{Colocation: value})
		assert.Equal(t, ok, len(errs) == 0, "%q: %v", value, errs)
	}
}

// An environment may always expose less than configured, and more only where that is allowed.
func TestAllowedExposures(t *testing.T) {
	all := rapid.SampledFrom(v1alpha1.EnvironmentExposures)
	rapid.Check(t, func(t *rapid.T) {
		byDefault, others := all.Draw(t, "default"), rapid.SliceOfN(all, 0, 3).Draw(t, "allowed")
		e := builders.CompleteEnvironment()
		assert.Nil(t, Exposure(e, byDefault, others), "the default")
		e.Spec.Network = &v1alpha1.EnvironmentNetwork{}
		assert.Nil(t, Exposure(e, byDefault, others), "the default")
		e.Spec.Network.Exposure = all.Draw(t, "set")
		allowed := e.Spec.Network.Exposure == v1alpha1.ExposureNone || e.Spec.Network.Exposure == byDefault
		for _, x := range others {
			allowed = allowed || x == e.Spec.Network.Exposure
		}
		err := Exposure(e, byDefault, others)
		assert.Equal(t, allowed, err == nil, "%v", err)
		if err != nil {
			assert.Contains(t, err.Error(), "spec.network.exposure: Unsupported value: \""+string(e.Spec.Network.Exposure)+"\"")
		}
	})
}

func TestValidateAutoscaling(t *testing.T) {
	for field, change := range map[string]func(*v1alpha1.BackendComponent){
		"autoscaling.minReplicas":         func(b *v1alpha1.BackendComponent) { b.Autoscaling.MinReplicas = new(int32(0)) },
		"autoscaling.maxReplicas":         func(b *v1alpha1.BackendComponent) { b.Autoscaling.MinReplicas = new(int32(6)) },
		"autoscaling.targetCPUPercent":    func(b *v1alpha1.BackendComponent) { b.Autoscaling.TargetCPUPercent = new(int32(101)) },
		"autoscaling.targetMemoryPercent": func(b *v1alpha1.BackendComponent) { b.Autoscaling.TargetMemoryPercent = new(int32(0)) },
		"resources.cpu":                   func(b *v1alpha1.BackendComponent) { b.Container.Resources = nil },
		"resources.memory": func(b *v1alpha1.BackendComponent) {
			b.Container.Resources, b.Autoscaling.TargetMemoryPercent = nil, new(int32(50))
		},
		"restart policy OnFailure": func(b *v1alpha1.BackendComponent) { b.Container.RestartPolicy = v1alpha1.RestartOnFailure },
	} {
		spec := builders.CompleteEnvironment().Spec.DeepCopy()
		spec.Stack.Backend.Autoscaling = &v1alpha1.EnvironmentAutoscaling{MaxReplicas: 5}
		require.Empty(t, Spec(spec))
		change(spec.Stack.Backend)
		require.ErrorContains(t, Spec(spec).ToAggregate(), field)
	}
}

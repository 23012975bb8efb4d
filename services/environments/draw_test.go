// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
)

var (
	text    = rapid.StringMatching(`[a-zA-Z0-9 ./:äß-]{1,12}`)
	label   = rapid.StringMatching(`[a-z][a-z0-9]{0,8}`)
	seconds = rapid.Int32Range(0, 86400)
)

// drawContainer makes a container that nothing is wrong with. What means the same written in two ways is written in one.
func drawContainer(t *rapid.T, port int32) *schedulerv1.ContainerConfig {
	texts := rapid.SliceOfN(text, 0, 3)
	c := &schedulerv1.ContainerConfig{
		Name: label.Draw(t, "name"), Image: label.Draw(t, "image"), Command: texts.Draw(t, "command"), Args: texts.Draw(t, "args"),
		RestartPolicy: schedulerv1.RestartPolicy(rapid.Int32Range(0, 4).Draw(t, "policy")),
	}
	for i := range rapid.Int32Range(0, 2).Draw(t, "ports") {
		p := &schedulerv1.PortMapping{ContainerPort: 80 + i, Protocol: rapid.SampledFrom([]string{"tcp", "udp"}).Draw(t, "protocol")}
		if rapid.Bool().Draw(t, "explicit") {
			p.HostPort = port + i
		}
		c.Ports = append(c.Ports, p)
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "volumes") {
		c.Volumes = append(c.Volumes, &schedulerv1.VolumeMount{
			Name: fmt.Sprintf("v%d", i), MountPath: fmt.Sprintf("/m%d", i), HostPath: rapid.SampledFrom([]string{"", "/srv"}).Draw(t, "host"),
			ReadOnly: rapid.Bool().Draw(t, "read only"),
		})
	}
	if rapid.Bool().Draw(t, "env") {
		c.EnvironmentVariables = rapid.MapOfN(rapid.StringMatching(`[A-Z_][A-Z0-9_.]{0,6}`), text, 1, 3).Draw(t, "variables")
	}
	if rapid.Bool().Draw(t, "resources") {
		n := rapid.Int64Range(0, maxMiB)
		c.Resources = &schedulerv1.ResourceLimits{
			MemoryMb: n.Draw(t, "memory"), DiskMb: n.Draw(t, "disk"), CpuCores: float64(rapid.Int32Range(0, 1e6).Draw(t, "cpu")) / 1000,
		}
	}
	if rapid.Bool().Draw(t, "health") {
		c.HealthCheck = &schedulerv1.HealthCheck{
			Command: []string{"pg_isready"}, IntervalSeconds: seconds.Draw(t, "interval"), TimeoutSeconds: seconds.Draw(t, "timeout"),
			Retries: rapid.Int32Range(0, 1000).Draw(t, "retries"), StartPeriodSeconds: seconds.Draw(t, "start"),
		}
	}
	return c
}

// drawSpec makes a specification that nothing is wrong with, and that has credentials at times.
func drawSpec(t *rapid.T) *schedulerv1.EnvironmentSpecification {
	stack := &schedulerv1.ApplicationStack{Name: label.Draw(t, "stack"), Version: label.Draw(t, "version")}
	for i := range rapid.Int32Range(0, 3).Draw(t, "services") {
		if stack.AdditionalServices == nil {
			stack.AdditionalServices = map[string]*schedulerv1.ContainerConfig{}
		}
		stack.AdditionalServices[fmt.Sprintf("s-%d", i)] = drawContainer(t, 9000+10*i)
	}
	if rapid.Bool().Draw(t, "frontend") {
		stack.Frontend = &schedulerv1.FrontendConfig{Container: drawContainer(t, 8000), SslEnabled: rapid.Bool().Draw(t, "ssl")}
		for _, p := range stack.Frontend.GetContainer().GetPorts() {
			if p.GetProtocol() == "tcp" {
				stack.Frontend.Domains = []string{"shop.example.com"}
			}
		}
	}
	if rapid.Bool().Draw(t, "backend") {
		stack.Backend = &schedulerv1.BackendConfig{Container: drawContainer(t, 8010)}
		if rapid.Bool().Draw(t, "keys") {
			stack.Backend.ApiKeys = rapid.MapOfN(rapid.StringMatching(`[A-Z_]{1,6}`), text, 1, 3).Draw(t, "api keys")
			stack.Backend.DatabaseConnectionString = "postgres://secret"
		}
	}
	if stack.Backend == nil && stack.Frontend == nil && len(stack.AdditionalServices) == 0 || rapid.Bool().Draw(t, "database") {
		c := drawContainer(t, 8020)
		c.RestartPolicy = schedulerv1.RestartPolicy_RESTART_POLICY_ALWAYS
		stack.Database = &schedulerv1.DatabaseConfig{
			Container: c, DatabaseName: label.Draw(t, "db"), Username: label.Draw(t, "user"), Password: text.Draw(t, "password"),
			PersistentStorage: rapid.Bool().Draw(t, "persistent"), StoragePath: rapid.SampledFrom([]string{"", "/data"}).Draw(t, "path"),
		}
		if rapid.Bool().Draw(t, "password as a variable") {
			c.EnvironmentVariables = map[string]string{"POSTGRES_PASSWORD": stack.Database.GetPassword(), "PGDATA": "/data"}
		}
	}
	spec := &schedulerv1.EnvironmentSpecification{Name: label.Draw(t, "name"), Description: text.Draw(t, "description"), ApplicationStack: stack}
	if rapid.Bool().Draw(t, "labels") {
		spec.Labels = rapid.MapOfN(text, text, 1, 3).Draw(t, "labels")
	}
	if rapid.Bool().Draw(t, "network") {
		spec.Network = &schedulerv1.NetworkConfig{NetworkName: label.Draw(t, "net"), Subnet: "10.0.0.0/8", Isolated: rapid.Bool().Draw(t, "isolated")}
	}
	return spec
}

// withoutSecrets is what may be read back of a specification.
func withoutSecrets(in *schedulerv1.EnvironmentSpecification) *schedulerv1.EnvironmentSpecification {
	out := proto.CloneOf(in)
	if d := out.GetApplicationStack().GetDatabase(); d != nil {
		d.Password = ""
		delete(d.GetContainer().GetEnvironmentVariables(), "POSTGRES_PASSWORD")
	}
	if b := out.GetApplicationStack().GetBackend(); b != nil {
		b.DatabaseConnectionString, b.ApiKeys = "", nil
	}
	return out
}

// smoke is an environment with everything that a client can send.
func smoke() *schedulerv1.EnvironmentSpecification {
	container := func(name, image string, port, host int32) *schedulerv1.ContainerConfig {
		return &schedulerv1.ContainerConfig{
			Name: name, Image: image, Ports: []*schedulerv1.PortMapping{{ContainerPort: port, HostPort: host, Protocol: "tcp"}},
			EnvironmentVariables: map[string]string{"NODE_ENV": "production"},
			Resources:            &schedulerv1.ResourceLimits{MemoryMb: 512, CpuCores: 0.5, DiskMb: 1024},
			HealthCheck: &schedulerv1.HealthCheck{
				Command: []string{"CMD", "true"}, IntervalSeconds: 30, TimeoutSeconds: 5, Retries: 3, StartPeriodSeconds: 10,
			},
			RestartPolicy: schedulerv1.RestartPolicy_RESTART_POLICY_UNLESS_STOPPED,
		}
	}
	backend, database := container("web-backend", "node:18-alpine", 3000, 3000), container("web-database", "postgres:15-alpine", 5432, 5432)
	backend.Volumes = []*schedulerv1.VolumeMount{{Name: "code", MountPath: "/app", HostPath: "/opt/app", ReadOnly: true}}
	database.Volumes = []*schedulerv1.VolumeMount{{Name: "data", MountPath: "/var/lib/postgresql/data", HostPath: "/opt/data"}}
	database.EnvironmentVariables = map[string]string{"PGDATA": "/var/lib/postgresql/data/pgdata"}
	return &schedulerv1.EnvironmentSpecification{
		Name: "example-app", Description: "a web application", Labels: map[string]string{"environment": "development", "team": "backend"},
		ApplicationStack: &schedulerv1.ApplicationStack{
			Name: "web", Version: "1.0.0",
			Frontend: &schedulerv1.FrontendConfig{Container: container("web-frontend", "nginx:alpine", 80, 8080), Domains: []string{"localhost"}},
			Backend: &schedulerv1.BackendConfig{
				Container: backend, DatabaseConnectionString: "postgresql://user:hunter2@database:5432/app",
				ApiKeys: map[string]string{"JWT_SECRET": "hunter3"},
			},
			Database: &schedulerv1.DatabaseConfig{
				Container: database, DatabaseName: "app", Username: "user", Password: "hunter2", PersistentStorage: true,
				StoragePath: "/var/lib/postgresql/data",
			},
			AdditionalServices: map[string]*schedulerv1.ContainerConfig{"redis-cache": container("redis", "redis:7-alpine", 6379, 6379)},
		},
		Network: &schedulerv1.NetworkConfig{NetworkName: "app-network", Subnet: "172.20.0.0/16", Gateway: "172.20.0.1"},
	}
}

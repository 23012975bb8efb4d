// SPDX-License-Identifier: Apache-2.0

package generators

import (
	"fmt"

	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
)

func oneOf[T any](t *rapid.T, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(t, label)
}

func maybe(t *rapid.T, label string) bool { return rapid.Bool().Draw(t, label) }

// Stack draws the stack of an environment, with few names, so that they meet.
func Stack(t *rapid.T) v1alpha1.ApplicationStack {
	var stack v1alpha1.ApplicationStack
	host := int32(8000)
	if maybe(t, "database") {
		stack.Database = &v1alpha1.DatabaseComponent{
			Container: stackContainer(t, &host), PersistentStorage: maybe(t, "persistent"),
			DatabaseName: oneOf(t, "database name", "", "shop", "a b/c?d"), Username: oneOf(t, "user", "", "owner", "o@w:n/er"),
			StoragePath: oneOf(t, "storage path", "", "/data", "/data/"),
		}
		stack.Database.Container.RestartPolicy = oneOf(t, "restart policy", "", v1alpha1.RestartAlways, v1alpha1.RestartUnlessStopped)
	}
	names := []string{"a", "a-b", "redis-cache", "backend-x", fmt.Sprintf("a%051d", 0)}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID[string]).Draw(t, "services") {
		stack.AdditionalServices = append(stack.AdditionalServices, v1alpha1.AdditionalService{
			Name: name, Container: stackContainer(t, &host), Replicas: Count(t, "replicas", 3),
		})
	}
	if maybe(t, "backend") {
		stack.Backend = &v1alpha1.BackendComponent{Container: stackContainer(t, &host), Replicas: Count(t, "replicas", 3)}
	}
	if maybe(t, "frontend") {
		stack.Frontend = &v1alpha1.FrontendComponent{
			Container: stackContainer(t, &host), Replicas: Count(t, "replicas", 3), TLSEnabled: maybe(t, "tls"),
		}
		if maybe(t, "domains") {
			stack.Frontend.Domains = []string{"shop.example", "*.shop.example"}
			for i := range rapid.IntRange(0, 30).Draw(t, "more domains") {
				stack.Frontend.Domains = append(stack.Frontend.Domains, fmt.Sprintf("d%d.example", i))
			}
			stack.Frontend.Container.Ports = []v1alpha1.EnvironmentPort{{ContainerPort: 80, Protocol: v1alpha1.ProtocolTCP}}
		}
	}
	return stack
}

// Count draws a number that may be absent.
func Count(t *rapid.T, label string, most int32) *int32 {
	return rapid.Ptr(rapid.Int32Range(0, most), true).Draw(t, label)
}

// stackContainer has ports from outside, by number, from host on.
func stackContainer(t *rapid.T, host *int32) v1alpha1.EnvironmentContainer {
	c := v1alpha1.EnvironmentContainer{
		Image:         oneOf(t, "image", "nginx", "postgres:17"),
		RestartPolicy: oneOf(t, "restart policy", "", v1alpha1.RestartNo, v1alpha1.RestartAlways, v1alpha1.RestartOnFailure, v1alpha1.RestartUnlessStopped),
	}
	for _, port := range rapid.SliceOfNDistinct(rapid.SampledFrom([]int32{1, 80, 5432, 65535}), 0, 3, rapid.ID[int32]).Draw(t, "ports") {
		p := v1alpha1.EnvironmentPort{ContainerPort: port, Protocol: oneOf(t, "protocol", "", v1alpha1.ProtocolTCP, v1alpha1.ProtocolUDP)}
		if maybe(t, "by number") {
			p.HostPort, *host = *host, *host+1
		}
		c.Ports = append(c.Ports, p)
	}
	paths := []string{"/data", "/var/lib/postgresql/data/", "/etc/x", "/srv//y"}
	named := map[string]bool{}
	for _, path := range rapid.SliceOfNDistinct(rapid.SampledFrom(paths), 0, 3, rapid.ID[string]).Draw(t, "volumes") {
		v := v1alpha1.EnvironmentVolume{
			MountPath: path, HostPath: oneOf(t, "host path", "", "/srv/allowed/x", "/etc"), ReadOnly: maybe(t, "read only"),
		}
		v.Ephemeral = v.HostPath == "" && maybe(t, "ephemeral")
		if name := oneOf(t, "volume", "", "b-c", "c", "data", "volume-2", fmt.Sprintf("v%039d", 0)); !named[name] {
			v.Name, named[name] = name, true
		}
		c.Volumes = append(c.Volumes, v)
	}
	c.TerminationGracePeriodSeconds = rapid.Ptr(rapid.Int64Range(0, 60), true).Draw(t, "grace")
	if maybe(t, "env") {
		c.Env = map[string]v1alpha1.ConfigValue{"A": "1", "PGDATA": "/data/x", "PAYMENT_KEY": "public", "POSTGRES_PASSWORD": "public"}
	}
	if maybe(t, "resources") {
		c.Resources = &v1alpha1.EnvironmentResources{
			CPU: oneOf(t, "cpu", "", "500m"), Memory: oneOf(t, "memory", "", "1Gi"), Disk: oneOf(t, "disk", "", "10Gi"),
		}
	}
	if maybe(t, "check") {
		c.HealthCheck = &v1alpha1.EnvironmentHealthCheck{
			Command:         oneOf(t, "command", []string{"true"}, []string{"NONE"}, []string{"CMD", "true"}, []string{"CMD-SHELL", "true || false"}),
			IntervalSeconds: rapid.Int32Range(0, 86400).Draw(t, "interval"), TimeoutSeconds: rapid.Int32Range(0, 86400).Draw(t, "timeout"),
			Retries: rapid.Int32Range(0, 1000).Draw(t, "retries"), StartPeriodSeconds: rapid.Int32Range(0, 86400).Draw(t, "start"),
		}
		if maybe(t, "over HTTP") {
			c.HealthCheck.Command, c.HealthCheck.HTTPGet = nil, &v1alpha1.EnvironmentHTTPGet{Port: 80}
		}
	}
	return c
}

// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
)

func pick[T any](t *rapid.T, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(t, label)
}

func maybe(t *rapid.T, label string) bool { return rapid.Bool().Draw(t, label) }

// drawSpec is any spec that Validate accepts, with few names, so that they meet.
func drawSpec(t *rapid.T) *v1alpha1.EnvironmentSpec {
	spec := &v1alpha1.EnvironmentSpec{
		RunPolicy: pick(t, "run", "", v1alpha1.RunPolicyRunning, v1alpha1.RunPolicyStopped),
		ForceStop: maybe(t, "force"),
	}
	if maybe(t, "restart") {
		at := metav1.NewTime(time.Unix(1_700_000_000, 0))
		spec.RestartedAt = &at
	}
	if maybe(t, "network") {
		spec.Network = &v1alpha1.EnvironmentNetwork{Isolated: maybe(t, "isolated")}
	}
	if maybe(t, "placement") {
		spec.Placement = &v1alpha1.EnvironmentPlacement{SpotPercent: number(t, "spot", 100), MinOnDemand: number(t, "least", 1000), DatabaseOnSpot: maybe(t, "database on spot")}
	}
	for len(Components(&spec.Stack)) == 0 {
		spec.Stack = drawStack(t)
	}
	if len(Validate(spec)) > 0 { // two components that would make one object
		t.Skip("clash")
	}
	return spec
}

func drawStack(t *rapid.T) v1alpha1.ApplicationStack {
	var stack v1alpha1.ApplicationStack
	host := int32(8000)
	if maybe(t, "database") {
		stack.Database = &v1alpha1.DatabaseComponent{
			Container: drawContainer(t, &host), PersistentStorage: maybe(t, "persistent"),
			DatabaseName: pick(t, "database name", "", "shop", "a b/c?d"), Username: pick(t, "user", "", "owner", "o@w:n/er"),
			StoragePath: pick(t, "storage path", "", "/data", "/data/"),
		}
		stack.Database.Container.RestartPolicy = pick(t, "restart policy", "", v1alpha1.RestartAlways, v1alpha1.RestartUnlessStopped)
	}
	names := []string{"a", "a-b", "redis-cache", "backend-x", fmt.Sprintf("a%051d", 0)}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID[string]).Draw(t, "services") {
		stack.AdditionalServices = append(stack.AdditionalServices, v1alpha1.AdditionalService{Name: name, Container: drawContainer(t, &host), Replicas: number(t, "replicas", 3)})
	}
	if maybe(t, "backend") {
		stack.Backend = &v1alpha1.BackendComponent{Container: drawContainer(t, &host), Replicas: number(t, "replicas", 3)}
	}
	if maybe(t, "frontend") {
		stack.Frontend = &v1alpha1.FrontendComponent{Container: drawContainer(t, &host), Replicas: number(t, "replicas", 3), TLSEnabled: maybe(t, "tls")}
		if maybe(t, "domains") {
			stack.Frontend.Domains = append([]string{"shop.example", "*.shop.example"}, many(rapid.IntRange(0, 30).Draw(t, "more domains"))...)
			stack.Frontend.Container.Ports = tcp(80)
		}
	}
	return stack
}

func number(t *rapid.T, label string, most int32) *int32 {
	return rapid.Ptr(rapid.Int32Range(0, most), true).Draw(t, label)
}

// drawContainer has ports from outside, by number, from host on.
func drawContainer(t *rapid.T, host *int32) v1alpha1.EnvironmentContainer {
	c := v1alpha1.EnvironmentContainer{
		Image:         pick(t, "image", "nginx", "postgres:17"),
		RestartPolicy: pick(t, "restart policy", "", v1alpha1.RestartNo, v1alpha1.RestartAlways, v1alpha1.RestartOnFailure, v1alpha1.RestartUnlessStopped),
	}
	for _, port := range rapid.SliceOfNDistinct(rapid.SampledFrom([]int32{1, 80, 5432, 65535}), 0, 3, rapid.ID[int32]).Draw(t, "ports") {
		p := v1alpha1.EnvironmentPort{ContainerPort: port, Protocol: pick(t, "protocol", "", v1alpha1.ProtocolTCP, v1alpha1.ProtocolUDP)}
		if maybe(t, "by number") {
			p.HostPort, *host = *host, *host+1
		}
		c.Ports = append(c.Ports, p)
	}
	paths := []string{"/data", "/var/lib/postgresql/data/", "/etc/x", "/srv//y"}
	named := map[string]bool{}
	for _, path := range rapid.SliceOfNDistinct(rapid.SampledFrom(paths), 0, 3, rapid.ID[string]).Draw(t, "volumes") {
		v := v1alpha1.EnvironmentVolume{MountPath: path, HostPath: pick(t, "host path", "", "/srv/allowed/x", "/etc"), ReadOnly: maybe(t, "read only")}
		if name := pick(t, "volume", "", "b-c", "c", "data", "volume-2", fmt.Sprintf("v%039d", 0)); !named[name] {
			v.Name, named[name] = name, true
		}
		c.Volumes = append(c.Volumes, v)
	}
	if maybe(t, "env") {
		c.Env = map[string]v1alpha1.ConfigValue{"A": "1", "PGDATA": "/data/x", "PAYMENT_KEY": "public", "POSTGRES_PASSWORD": "public"}
	}
	if maybe(t, "resources") {
		c.Resources = sized(pick(t, "cpu", "", "500m"), pick(t, "memory", "", "1Gi"), pick(t, "disk", "", "10Gi"))
	}
	if maybe(t, "check") {
		c.HealthCheck = &v1alpha1.EnvironmentHealthCheck{
			Command:         pick(t, "command", []string{"true"}, []string{"NONE"}, []string{"CMD", "true"}, []string{"CMD-SHELL", "true || false"}),
			IntervalSeconds: rapid.Int32Range(0, 86400).Draw(t, "interval"), TimeoutSeconds: rapid.Int32Range(0, 86400).Draw(t, "timeout"),
			Retries: rapid.Int32Range(0, 1000).Draw(t, "retries"), StartPeriodSeconds: rapid.Int32Range(0, 86400).Draw(t, "start"),
		}
	}
	return c
}

// drawInput is what any environment is rendered from.
func drawInput(t *rapid.T) *Input {
	return input(t, func(in *Input) {
		in.Environment.Spec = *drawSpec(t)
		in.Own = maybe(t, "own")
		in.OpenStages = rapid.Int32Range(0, Stages).Draw(t, "open")
		in.Settings.Exposure = pick(t, "exposure", ExposeHostPort, ExposeLoadBalancer, ExposeNodePort, ExposeNone)
		in.Settings.SchedulerName = pick(t, "scheduler", "", "berth-scheduler")
		in.Settings.HostPaths = pick(t, "host paths", nil, []string{"/srv/allowed"}, []string{"/"})
		in.Settings.StorageClass = pick(t, "class", "", "fast")
		in.Settings.RunAsNonRoot = maybe(t, "non-root")
		in.Settings.Gateway, in.Settings.TLSListener = pick(t, "gateway", types.NamespacedName{}, theGateway), "https"
		if maybe(t, "connection") {
			in.Credentials.ConnectionString = theURL
		}
		if maybe(t, "restarts") {
			in.Restarts = map[string]string{Database: "2026-01-01T00:00:00Z", Backend: "2026-01-01T00:00:00Z"}
		}
	})
}

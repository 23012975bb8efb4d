// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/services/server"
)

// toWire writes an environment for clients, but for its containers. Passwords and keys are not in it, and could not be:
// they are in a Secret, which is not read for this.
func toWire(e *environment) *schedulerv1.Environment {
	out := &schedulerv1.Environment{
		Id: e.Name, Name: nameOf(e), Spec: specToWire(&e.Spec), Status: statusOf(e), UpdatedAt: updatedAt(e),
	}
	out.Spec.Name = out.Name
	if !e.CreationTimestamp.IsZero() {
		out.CreatedAt = timestamppb.New(e.CreationTimestamp.Time)
	}
	return out
}

// nameOf is the name of an environment that users see.
func nameOf(e *environment) string { return cmp.Or(e.Spec.DisplayName, e.Name) }

func specToWire(s *v1alpha1.EnvironmentSpec) *schedulerv1.EnvironmentSpecification {
	out := &schedulerv1.EnvironmentSpecification{
		Name: s.DisplayName, Description: s.Description, Labels: server.Texts[string](s.Labels), ApplicationStack: stackToWire(&s.Stack),
	}
	if n := s.Network; n != nil {
		out.Network = &schedulerv1.NetworkConfig{NetworkName: n.Name, Subnet: n.Subnet, Gateway: n.Gateway, Isolated: n.Isolated}
	}
	return out
}

func stackToWire(s *v1alpha1.ApplicationStack) *schedulerv1.ApplicationStack {
	out := &schedulerv1.ApplicationStack{Name: s.Name, Version: s.Version}
	if f := s.Frontend; f != nil {
		out.Frontend = &schedulerv1.FrontendConfig{Container: containerToWire(&f.Container), Domains: f.Domains, SslEnabled: f.TLSEnabled}
	}
	if b := s.Backend; b != nil {
		out.Backend = &schedulerv1.BackendConfig{Container: containerToWire(&b.Container)}
	}
	if d := s.Database; d != nil {
		out.Database = &schedulerv1.DatabaseConfig{
			Container: containerToWire(&d.Container), DatabaseName: d.DatabaseName, Username: d.Username,
			PersistentStorage: d.PersistentStorage, StoragePath: d.StoragePath,
		}
		// Who wrote the object may have put it there, although it has no effect.
		delete(out.Database.Container.EnvironmentVariables, render.PostgresPassword)
	}
	if len(s.AdditionalServices) > 0 {
		out.AdditionalServices = make(map[string]*schedulerv1.ContainerConfig, len(s.AdditionalServices))
	}
	for i := range s.AdditionalServices {
		out.AdditionalServices[s.AdditionalServices[i].Name] = containerToWire(&s.AdditionalServices[i].Container)
	}
	return out
}

func containerToWire(c *v1alpha1.EnvironmentContainer) *schedulerv1.ContainerConfig {
	out := &schedulerv1.ContainerConfig{
		Name: c.Name, Image: c.Image, Command: c.Command, Args: c.Args, EnvironmentVariables: server.Texts[string](c.Env),
	}
	for _, p := range c.Ports {
		out.Ports = append(out.Ports, portToWire(p.ContainerPort, p.HostPort, p.Protocol))
	}
	for _, v := range c.Volumes {
		out.Volumes = append(out.Volumes, &schedulerv1.VolumeMount{
			Name: v.Name, MountPath: v.MountPath, HostPath: v.HostPath, ReadOnly: v.ReadOnly,
		})
	}
	if r := c.Resources; r != nil {
		out.Resources = &schedulerv1.ResourceLimits{MemoryMb: mebibytesOf(r.Memory), CpuCores: coresOf(r.CPU), DiskMb: mebibytesOf(r.Disk)}
	}
	if h := c.HealthCheck; h != nil && len(h.Command) > 0 { // the proto has no other check
		out.HealthCheck = &schedulerv1.HealthCheck{
			Command: h.Command, IntervalSeconds: h.IntervalSeconds, TimeoutSeconds: h.TimeoutSeconds, Retries: h.Retries,
			StartPeriodSeconds: h.StartPeriodSeconds,
		}
	}
	for wire, policy := range restartPolicies {
		if policy == c.RestartPolicy {
			out.RestartPolicy = wire
		}
	}
	return out
}

// portToWire writes a port. Without a protocol it is TCP.
func portToWire(container, host int32, protocol v1alpha1.EnvironmentProtocol) *schedulerv1.PortMapping {
	text := strings.ToLower(string(cmp.Or(protocol, v1alpha1.ProtocolTCP)))
	return &schedulerv1.PortMapping{ContainerPort: container, HostPort: host, Protocol: text}
}

func timeToWire(t *metav1.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t.Time)
}

// SPDX-License-Identifier: Apache-2.0

// Package stack has what a stack is made of: its components in the order in which they start, their ports and volumes, and the names
// of the objects that these become. Validation and rendering have it in common.
package stack

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
)

// Names of the components that every stack may have. The others have those of their additional services.
const (
	Database = "database"
	Backend  = "backend"
	Frontend = "frontend"
)

// Stages, in the order in which they are started.
const (
	StageDatabase   int32 = 1
	StageAdditional int32 = 2
	StageBackend    int32 = 3
	StageFrontend   int32 = 4
	// Stages is how many there are.
	Stages = StageFrontend
)

// Workload is what a component runs as.
type Workload string

// Workloads.
const (
	// OfDeployment rolls: a new pod is Ready before an old one goes.
	OfDeployment Workload = "Deployment"
	// OfStatefulSet ends the old pod before the new one starts.
	OfStatefulSet Workload = "StatefulSet"
	// OfJob may end.
	OfJob Workload = "Job"
)

// MaxReplicas is how many replicas a component may have.
const MaxReplicas = 1000

// Component is a part of a stack.
type Component struct {
	Name string
	// Path is where the spec has it.
	Path      *field.Path
	Stage     int32
	Container *v1alpha1.EnvironmentContainer
	Replicas  int32
	// Autoscaling is nil if the replicas are those of the spec.
	Autoscaling *v1alpha1.EnvironmentAutoscaling
	Workload    Workload
}

// IsDatabase reports whether it is the stack's database, and not one that someone calls so.
func (c *Component) IsDatabase() bool { return c.Stage == StageDatabase }

// Components returns the components of a stack in the order in which they start; additional services in that of the spec.
func Components(stack *v1alpha1.ApplicationStack) []Component {
	var list []Component
	path := field.NewPath("spec", "stack")
	if d := stack.Database; d != nil {
		list = append(list, Component{
			Name: Database, Path: path.Child(Database), Stage: StageDatabase, Container: &d.Container, Replicas: 1, Workload: OfStatefulSet,
		})
	}
	for i := range stack.AdditionalServices {
		s := &stack.AdditionalServices[i]
		at := path.Child("additionalServices").Index(i)
		list = append(list, component(s.Name, at, StageAdditional, &s.Container, s.Replicas, s.Autoscaling))
	}
	if b := stack.Backend; b != nil {
		list = append(list, component(Backend, path.Child(Backend), StageBackend, &b.Container, b.Replicas, b.Autoscaling))
	}
	if f := stack.Frontend; f != nil {
		list = append(list, component(Frontend, path.Child(Frontend), StageFrontend, &f.Container, f.Replicas, f.Autoscaling))
	}
	return list
}

func component(
	name string, path *field.Path, stage int32, c *v1alpha1.EnvironmentContainer, replicas *int32,
	autoscaling *v1alpha1.EnvironmentAutoscaling,
) Component {
	out := Component{
		Name: name, Path: path, Stage: stage, Container: c, Replicas: ptr.Deref(replicas, 1), Autoscaling: autoscaling,
		Workload: OfDeployment,
	}
	if c.RestartPolicy == v1alpha1.RestartNo || c.RestartPolicy == v1alpha1.RestartOnFailure {
		out.Workload = OfJob
	}
	return out
}

// Find returns the component of a name, nil if there is none.
func Find(list []Component, name string) *Component {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// PortKey is what there is one port of: of a container, or from outside.
type PortKey struct {
	Number   int32
	Protocol v1alpha1.EnvironmentProtocol
}

// requestedPorts are the ports from outside of a stack, in the order of the components. One that is not requested by number
// has none.
func requestedPorts(stack *v1alpha1.ApplicationStack) (out []v1alpha1.AllocatedPort) {
	for _, c := range Components(stack) {
		for i := range c.Container.Ports {
			p := &c.Container.Ports[i]
			out = append(out, v1alpha1.AllocatedPort{
				Component: c.Name, ContainerPort: p.ContainerPort, HostPort: p.HostPort, Protocol: ProtocolOf(p),
			})
		}
	}
	return out
}

// explicit are the ports with a hostPort.
func explicit(stack *v1alpha1.ApplicationStack) []v1alpha1.AllocatedPort {
	return slices.DeleteFunc(requestedPorts(stack), func(p v1alpha1.AllocatedPort) bool { return p.HostPort <= 0 })
}

// HostPorts returns the ports from outside that an environment has or requests by number.
func HostPorts(e *v1alpha1.Environment) []v1alpha1.AllocatedPort {
	all := map[PortKey]v1alpha1.AllocatedPort{}
	for _, p := range append(slices.Clone(e.Status.Ports), explicit(&e.Spec.Stack)...) {
		all[PortKey{p.HostPort, p.Protocol}] = p
	}
	return slices.SortedFunc(maps.Values(all), func(a, b v1alpha1.AllocatedPort) int {
		return cmp.Or(cmp.Compare(a.HostPort, b.HostPort), cmp.Compare(a.Protocol, b.Protocol))
	})
}

// ProtocolOf is the protocol of a port, TCP by default.
func ProtocolOf(p *v1alpha1.EnvironmentPort) v1alpha1.EnvironmentProtocol {
	return cmp.Or(p.Protocol, v1alpha1.ProtocolTCP)
}

// ExposureOf is how the ports of an environment are exposed, by default as configured.
func ExposureOf(e *v1alpha1.Environment, byDefault v1alpha1.EnvironmentExposure) v1alpha1.EnvironmentExposure {
	if n := e.Spec.Network; n != nil && n.Exposure != "" {
		return n.Exposure
	}
	return byDefault
}

// HeadlessService is the name of the Service that a StatefulSet names its pods by.
func HeadlessService(component string) string { return component + "-pods" }

// OutsideService is the name of the Service by which a component is reached from outside.
func OutsideService(component string) string { return component + "-outside" }

// SPDX-License-Identifier: Apache-2.0

package render

import (
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

// Component is a part of a stack.
type Component struct {
	Name      string
	Stage     int32
	Container *v1alpha1.EnvironmentContainer
	Replicas  int32
	// Autoscaling is nil if the replicas are those of the spec.
	Autoscaling *v1alpha1.EnvironmentAutoscaling
	Workload    Workload
}

// isDatabase reports whether it is the stack's database, and not one that someone calls so.
func (c *Component) isDatabase() bool { return c.Stage == StageDatabase }

// Components returns the components of a stack in the order in which they start; additional services in that of the spec.
func Components(stack *v1alpha1.ApplicationStack) []Component {
	var list []Component
	if d := stack.Database; d != nil {
		list = append(list, Component{Name: Database, Stage: StageDatabase, Container: &d.Container, Replicas: 1, Workload: OfStatefulSet})
	}
	for i := range stack.AdditionalServices {
		s := &stack.AdditionalServices[i]
		list = append(list, component(s.Name, StageAdditional, &s.Container, s.Replicas, s.Autoscaling))
	}
	if b := stack.Backend; b != nil {
		list = append(list, component(Backend, StageBackend, &b.Container, b.Replicas, b.Autoscaling))
	}
	if f := stack.Frontend; f != nil {
		list = append(list, component(Frontend, StageFrontend, &f.Container, f.Replicas, f.Autoscaling))
	}
	return list
}

func component(
	name string, stage int32, c *v1alpha1.EnvironmentContainer, replicas *int32, autoscaling *v1alpha1.EnvironmentAutoscaling,
) Component {
	out := Component{
		Name: name, Stage: stage, Container: c, Replicas: ptr.Deref(replicas, 1), Autoscaling: autoscaling, Workload: OfDeployment,
	}
	if c.RestartPolicy == v1alpha1.RestartNo || c.RestartPolicy == v1alpha1.RestartOnFailure {
		out.Workload = OfJob
	}
	return out
}

// find returns the component of a name, nil if there is none.
func find(list []Component, name string) *Component {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

var errDatabase = errors.New("database cannot be scaled: it has one replica; run a database with more by an operator such as " +
	"CloudNativePG, and set its address as databaseConnectionString in the Secret of the backend")

// Scale sets the replicas of a component, and returns those that the spec had. The error explains why that is impossible: no such
// component, a database, or a component whose replicas an autoscaler sets.
func Scale(e *v1alpha1.Environment, component string, replicas int32) (before int32, err error) {
	if replicas < 0 || replicas > stack.MaxReplicas {
		return 0, fmt.Errorf("replicas of %s is %d: it must be from 0 to %d", component, replicas, stack.MaxReplicas)
	}
	at, autoscaling, err := replicasAt(&e.Spec.Stack, component)
	if err != nil {
		return 0, err
	}
	if autoscaling != nil {
		return 0, fmt.Errorf("%s cannot be scaled: its autoscaling sets from %d to %d replicas",
			component, ptr.Deref(autoscaling.MinReplicas, 1), autoscaling.MaxReplicas)
	}
	before = ptr.Deref(*at, 1)
	if before != replicas {
		*at = &replicas
	}
	return before, nil
}

// replicasAt is where the spec has the replicas of a component.
func replicasAt(in *v1alpha1.ApplicationStack, name string) (**int32, *v1alpha1.EnvironmentAutoscaling, error) {
	switch {
	case name == stack.Database && in.Database != nil:
		return nil, nil, errDatabase
	case name == stack.Backend && in.Backend != nil:
		return &in.Backend.Replicas, in.Backend.Autoscaling, nil
	case name == stack.Frontend && in.Frontend != nil:
		return &in.Frontend.Replicas, in.Frontend.Autoscaling, nil
	}
	for i := range in.AdditionalServices {
		if s := &in.AdditionalServices[i]; s.Name == name {
			return &s.Replicas, s.Autoscaling, nil
		}
	}
	return nil, nil, fmt.Errorf("component %q not found: the environment has %s", name, strings.Join(ComponentNames(in), ", "))
}

// ComponentNames are the names of the components of a stack, in the order in which they start.
func ComponentNames(in *v1alpha1.ApplicationStack) (names []string) {
	for _, c := range stack.Components(in) {
		names = append(names, c.Name)
	}
	return names
}

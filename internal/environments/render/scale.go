// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
)

var errDatabase = errors.New("database cannot be scaled: it has one replica; run a database with more by an operator such as " +
	"CloudNativePG, and set its address as databaseConnectionString in the Secret of the backend")

// Scale sets the replicas of a component, and returns those that the spec had. The error explains why that is impossible: no such
// component, a database, or a component whose replicas an autoscaler sets.
func Scale(e *v1alpha1.Environment, component string, replicas int32) (before int32, err error) {
	if replicas < 0 || replicas > MaxReplicas {
		return 0, fmt.Errorf("replicas of %s is %d: it must be from 0 to %d", component, replicas, MaxReplicas)
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
func replicasAt(stack *v1alpha1.ApplicationStack, name string) (**int32, *v1alpha1.EnvironmentAutoscaling, error) {
	switch {
	case name == Database && stack.Database != nil:
		return nil, nil, errDatabase
	case name == Backend && stack.Backend != nil:
		return &stack.Backend.Replicas, stack.Backend.Autoscaling, nil
	case name == Frontend && stack.Frontend != nil:
		return &stack.Frontend.Replicas, stack.Frontend.Autoscaling, nil
	}
	for i := range stack.AdditionalServices {
		if s := &stack.AdditionalServices[i]; s.Name == name {
			return &s.Replicas, s.Autoscaling, nil
		}
	}
	return nil, nil, fmt.Errorf("component %q not found: the environment has %s", name, strings.Join(ComponentNames(stack), ", "))
}

// ComponentNames are the names of the components of a stack, in the order in which they start.
func ComponentNames(stack *v1alpha1.ApplicationStack) (names []string) {
	for _, c := range Components(stack) {
		names = append(names, c.Name)
	}
	return names
}

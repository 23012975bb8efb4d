// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/kube/applyset"
)

// allocate allocates the ports of an environment from outside. Only the leader does, one environment at a time, and it remembers
// them until the cache has them, so that no port is allocated twice.
func (c *Controller) allocate(ctx context.Context, env *v1alpha1.Environment) error {
	c.ports.Lock()
	defer c.ports.Unlock()
	taken, err := c.taken(ctx, env)
	if err != nil {
		return err
	}
	ports, err := stack.AllocatePorts(&env.Spec.Stack, env.Status.Ports, taken, c.Ports)
	if err != nil {
		if _, is := errors.AsType[*stack.PortTakenError](err); is {
			return applyset.Refuse(v1alpha1.ReasonPortTaken, err)
		}
		return applyset.Refuse(v1alpha1.ReasonNoPorts, err)
	}
	if !equality.Semantic.DeepEqual(ports, env.Status.Ports) {
		if c.ports.given == nil {
			c.ports.given = map[client.ObjectKey][]v1alpha1.AllocatedPort{}
		}
		c.ports.given[client.ObjectKeyFromObject(env)] = ports
	}
	env.Status.Ports = ports
	return nil
}

// taken returns the ports of other environments and their holders, none if the environment uses the ports of its nodes.
func (c *Controller) taken(ctx context.Context, env *v1alpha1.Environment) (map[stack.PortKey]string, error) {
	if stack.ExposureOf(env, c.Settings.Exposure) == v1alpha1.ExposureHostPort {
		return nil, nil
	}
	var all v1alpha1.EnvironmentList
	if err := c.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Environments: %w", err)
	}
	have := map[client.ObjectKey][]v1alpha1.AllocatedPort{}
	for i := range all.Items {
		o := &all.Items[i]
		key := client.ObjectKeyFromObject(o)
		have[key] = o.Status.Ports
		if given, is := c.ports.given[key]; is {
			if slices.Equal(given, o.Status.Ports) {
				delete(c.ports.given, key) // the cache has it
			} else {
				have[key] = append(slices.Clone(o.Status.Ports), given...)
			}
		}
	}
	self := client.ObjectKeyFromObject(env)
	delete(have, self)
	return holders(self.Namespace, have), nil
}

// holders returns the environment that has each port. Environments of other namespaces have no name, because a user who can read
// the status may not be able to read them.
func holders(namespace string, have map[client.ObjectKey][]v1alpha1.AllocatedPort) map[stack.PortKey]string {
	taken := map[stack.PortKey]string{}
	for _, key := range slices.SortedFunc(maps.Keys(have), compare) {
		name := ""
		if key.Namespace == namespace {
			name = key.Name
		}
		for _, p := range have[key] {
			taken[stack.PortKey{Number: p.HostPort, Protocol: p.Protocol}] = name
		}
	}
	return taken
}

// forgetPorts frees the ports of an environment that is gone.
func (c *Controller) forgetPorts(key client.ObjectKey) {
	c.ports.Lock()
	defer c.ports.Unlock()
	delete(c.ports.given, key)
}

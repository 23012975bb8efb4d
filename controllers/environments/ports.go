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
	"berth.dev/berth/internal/environments/render"
)

// allocate gives an environment its ports from outside. Only the leader does, one environment at a time, and it remembers
// what it gave until the cache shows it: no port is given twice.
func (r *Reconciler) allocate(ctx context.Context, env *v1alpha1.Environment) error {
	r.ports.Lock()
	defer r.ports.Unlock()
	taken, err := r.taken(ctx, env)
	if err != nil {
		return err
	}
	ports, err := render.AllocatePorts(&env.Spec.Stack, env.Status.Ports, taken, r.Ports)
	if err != nil {
		if _, is := errors.AsType[*render.PortTakenError](err); is {
			return &refusal{ReasonPortTaken, err}
		}
		return &refusal{ReasonNoPorts, err}
	}
	if !equality.Semantic.DeepEqual(ports, env.Status.Ports) {
		if r.ports.given == nil {
			r.ports.given = map[client.ObjectKey][]v1alpha1.AllocatedPort{}
		}
		r.ports.given[client.ObjectKeyFromObject(env)] = ports
	}
	env.Status.Ports = ports
	return nil
}

// taken are the ports of other environments, and who has them; none where each node has its own.
func (r *Reconciler) taken(ctx context.Context, env *v1alpha1.Environment) (map[render.PortKey]string, error) {
	if r.Settings.Exposure == render.ExposeHostPort {
		return nil, nil
	}
	var all v1alpha1.EnvironmentList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Environments: %w", err)
	}
	have := map[client.ObjectKey][]v1alpha1.AllocatedPort{}
	for i := range all.Items {
		o := &all.Items[i]
		key := client.ObjectKeyFromObject(o)
		have[key] = o.Status.Ports
		if given, is := r.ports.given[key]; is {
			if slices.Equal(given, o.Status.Ports) {
				delete(r.ports.given, key) // the cache shows it
			} else {
				have[key] = append(slices.Clone(o.Status.Ports), given...)
			}
		}
	}
	self := client.ObjectKeyFromObject(env)
	delete(have, self)
	return holders(self.Namespace, have), nil
}

// holders returns who has each port. Environments of other namespaces have no name: who reads the status may not be able to
// read them.
func holders(namespace string, have map[client.ObjectKey][]v1alpha1.AllocatedPort) map[render.PortKey]string {
	taken := map[render.PortKey]string{}
	for _, key := range slices.SortedFunc(maps.Keys(have), compare) {
		name := ""
		if key.Namespace == namespace {
			name = key.Name
		}
		for _, p := range have[key] {
			taken[render.PortKey{HostPort: p.HostPort, Protocol: p.Protocol}] = name
		}
	}
	return taken
}

// forgetPorts frees the ports of an environment that is gone.
func (r *Reconciler) forgetPorts(key client.ObjectKey) {
	r.ports.Lock()
	defer r.ports.Unlock()
	delete(r.ports.given, key)
}

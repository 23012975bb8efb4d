// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/services/server"
)

// merge makes a spec what an update requests. What clients cannot set stays: replicas, autoscaling, placement, Secrets,
// security contexts, health checks over the network, egress, exposure, whether it runs.
//
// A component of the stack that the update has not got stays as it is, and so do the network, the description, the labels,
// and the name and version of the stack: in all of them, absent means unchanged. What is there replaces what was, as a whole:
// a component with all its fields, labels with all their keys, and additional services with all of them, which is how one of
// them is taken away. A component that is the only one of its kind cannot be taken away.
func merge(before *v1alpha1.EnvironmentSpec, update *v1alpha1.EnvironmentSpec) *v1alpha1.EnvironmentSpec {
	out := before.DeepCopy()
	if update.Description != "" {
		out.Description = update.Description
	}
	if len(update.Labels) > 0 {
		out.Labels = update.Labels
	}
	if update.Network != nil {
		out.Network = update.Network.DeepCopy()
		if before.Network != nil {
			out.Network.Egress, out.Network.Exposure = before.Network.Egress.DeepCopy(), before.Network.Exposure
		}
	}
	mergeStack(&out.Stack, update.Stack.DeepCopy())
	if d := out.Stack.Database; d != nil {
		delete(d.Container.Env, render.PostgresPassword) // it has no effect there
	}
	return out
}

func mergeStack(out, update *v1alpha1.ApplicationStack) {
	out.Name, out.Version = cmp.Or(update.Name, out.Name), cmp.Or(update.Version, out.Version)
	if f := update.Frontend; f != nil {
		if before := out.Frontend; before != nil {
			f.Replicas, f.Autoscaling = before.Replicas, before.Autoscaling
			keepFields(&before.Container, &f.Container)
		}
		out.Frontend = f
	}
	if b := update.Backend; b != nil {
		if before := out.Backend; before != nil {
			b.Replicas, b.Autoscaling, b.SecretRef = before.Replicas, before.Autoscaling, before.SecretRef
			keepFields(&before.Container, &b.Container)
		}
		out.Backend = b
	}
	if d := update.Database; d != nil {
		if before := out.Database; before != nil {
			d.SecretRef = before.SecretRef
			keepFields(&before.Container, &d.Container)
		}
		out.Database = d
	}
	if len(update.AdditionalServices) > 0 {
		mergeServices(out.AdditionalServices, update.AdditionalServices)
		out.AdditionalServices = update.AdditionalServices
	}
}

// mergeServices has the services of an update keep what clients cannot set in those that there are.
func mergeServices(before, update []v1alpha1.AdditionalService) {
	known := map[string]*v1alpha1.AdditionalService{}
	for i := range before {
		known[before[i].Name] = &before[i]
	}
	for i := range update {
		s := &update[i]
		if before := known[s.Name]; before != nil {
			s.Replicas, s.Autoscaling = before.Replicas, before.Autoscaling
			keepFields(&before.Container, &s.Container)
		}
	}
}

// keepFields keeps the fields of a container that clients cannot set.
func keepFields(before, after *v1alpha1.EnvironmentContainer) {
	after.SecurityContext, after.TerminationGracePeriodSeconds = before.SecurityContext, before.TerminationGracePeriodSeconds
	if h := before.HealthCheck; after.HealthCheck == nil && h != nil && len(h.Command) == 0 {
		after.HealthCheck = h
	}
	for i := range after.Volumes {
		v := &after.Volumes[i]
		same := func(b v1alpha1.EnvironmentVolume) bool { return b.MountPath == v.MountPath && b.Name == v.Name }
		if n := slices.IndexFunc(before.Volumes, same); n >= 0 && v.HostPath == "" {
			v.Ephemeral = before.Volumes[n].Ephemeral
		}
	}
	keepQuantities(before, after)
}

// keepQuantities leaves the text of a quantity alone that is the same to clients: a client that sends back what it read changes
// nothing, although 1G is not a whole number of MiB.
func keepQuantities(before, after *v1alpha1.EnvironmentContainer) {
	if before.Resources == nil || after.Resources == nil {
		return
	}
	b, a := before.Resources, after.Resources
	if b.CPU != "" && a.CPU != "" && coresOf(b.CPU) == coresOf(a.CPU) {
		a.CPU = b.CPU
	}
	if b.Memory != "" && a.Memory != "" && mebibytesOf(b.Memory) == mebibytesOf(a.Memory) {
		a.Memory = b.Memory
	}
	if b.Disk != "" && a.Disk != "" && mebibytesOf(b.Disk) == mebibytesOf(a.Disk) {
		a.Disk = b.Disk
	}
}

// sameSpec reports whether two specs are the same to the API server, which counts no generation then.
func sameSpec(a, b *v1alpha1.EnvironmentSpec) bool { return apiequality.Semantic.DeepEqual(a, b) }

// rename refuses an update that changes the name, of which the id is made.
func rename(e *environment, name string) error {
	if name == "" || name == nameOf(e) {
		return nil
	}
	return server.InvalidField("spec.name", fmt.Sprintf("is %q, and the environment's is %q, which cannot be changed", name, nameOf(e)))
}

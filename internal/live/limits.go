// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits/registry"
)

// LimitsResource is how problems call the lists of ResourceLimits.
const LimitsResource = "resourcelimits." + v1alpha1.GroupName

// LoadLimits reads the ResourceLimits that pods of a namespace can have, or all
// with "": also those of the default namespaces that the profiles name.
func (c *Cluster) LoadLimits(ctx context.Context, cl client.Client, namespace string) error {
	namespaces := []string{namespace}
	if namespace != "" {
		for _, name := range c.Profile.SchedulerNames {
			if args, ok := c.Profile.LimitArgs(name); ok && args.DefaultNamespace != "" {
				namespaces = append(namespaces, args.DefaultNamespace)
			}
		}
	}
	slices.Sort(namespaces)
	l := &loader{ctx: ctx, client: cl}
	for _, n := range slices.Compact(namespaces) {
		c.Limits = append(c.Limits, objects[*v1alpha1.ResourceLimit](l, n, LimitsResource, &v1alpha1.ResourceLimitList{})...)
	}
	c.Problems = append(c.Problems, l.problems...)
	return l.err
}

// LimitOf returns a pod's size as its scheduler sees it, and whether that
// scheduler enforces it.
func (c *Cluster) LimitOf(pod *corev1.Pod) (found registry.Resolution, enforced bool) {
	in := ""
	args, enforced := c.Profile.LimitArgs(pod.Spec.SchedulerName)
	if enforced {
		in = args.DefaultNamespace
	}
	if c.sizes == nil {
		c.sizes = registry.NewRegistries(c.Limits)
	}
	return c.sizes.With(in).For(pod), enforced
}

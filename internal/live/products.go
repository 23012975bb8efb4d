// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
)

// LoadLimits reads the ResourceLimits that pods of a namespace can have, or all
// with "": also those of the default namespaces that the profiles name.
func LoadLimits(ctx context.Context, cl client.Client, c *overview.Cluster, namespace string) error {
	namespaces := []string{namespace}
	if namespace != "" {
		for _, name := range c.Profile.SchedulerNames {
			if args, ok := c.Profile.LimitArgs(name); ok && args.DefaultNamespace != "" {
				namespaces = append(namespaces, args.DefaultNamespace)
			}
		}
	}
	slices.Sort(namespaces)
	return load(ctx, cl, c, func(l *loader) {
		for _, n := range slices.Compact(namespaces) {
			c.Limits = append(c.Limits, objects[*v1alpha1.ResourceLimit](l, n, overview.LimitsResource, &v1alpha1.ResourceLimitList{})...)
		}
	})
}

// load reads lists, and adds those that are missing to the problems of the cluster.
func load(ctx context.Context, cl client.Client, c *overview.Cluster, lists func(l *loader)) error {
	l := &loader{ctx: ctx, client: cl}
	lists(l)
	c.Problems = append(c.Problems, l.problems...)
	return l.err
}

// LoadPolicies reads the SchedulingPolicies and Reservations of a namespace, or all with "".
func LoadPolicies(ctx context.Context, cl client.Client, c *overview.Cluster, namespace string) error {
	return load(ctx, cl, c, func(l *loader) {
		c.Policies = objects[*v1alpha1.SchedulingPolicy](l, namespace, overview.PoliciesResource, &v1alpha1.SchedulingPolicyList{})
		c.Reservations = objects[*v1alpha1.Reservation](l, namespace, overview.ReservationsResource, &v1alpha1.ReservationList{})
	})
}

// LoadProducts reads the DeploymentRecords and Environments of a namespace, or all with "".
func LoadProducts(ctx context.Context, cl client.Client, c *overview.Cluster, namespace string) error {
	return load(ctx, cl, c, func(l *loader) {
		c.Records = objects[*v1alpha1.DeploymentRecord](l, namespace, overview.RecordsResource, &v1alpha1.DeploymentRecordList{})
		c.Environments = objects[*v1alpha1.Environment](l, namespace, overview.EnvironmentsResource, &v1alpha1.EnvironmentList{})
	})
}

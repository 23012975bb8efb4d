// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/mix/overview"
)

// Read reads what the console shows of a namespace, or of all with "". Lists that the client may not read are problems of the result; any
// other failure is an error.
func Read(ctx context.Context, c client.Client, s *overview.Settings, namespace string) (*overview.Reading, error) {
	cluster, err := Load(ctx, c, s, namespace)
	if err != nil {
		return nil, err
	}
	if err := LoadLimits(ctx, c, cluster, namespace); err != nil {
		return nil, err
	}
	if err := LoadProducts(ctx, c, cluster, namespace); err != nil {
		return nil, err
	}
	if err := LoadPolicies(ctx, c, cluster, namespace); err != nil {
		return nil, err
	}
	r := &overview.Reading{
		Mixes: cluster.Mixes, Limits: cluster.Limits, Records: cluster.Records, Environments: cluster.Environments,
		Overview: cluster.Overview(nil), Rollouts: cluster.Rollouts, Policies: cluster.Policies, Reservations: cluster.Reservations,
		Nodes: overview.NodeDetails(cluster), Governed: overview.PolicyWorkloads(cluster),
	}
	if !cluster.Missing("nodes") {
		r.Domains = overview.DomainsOf(cluster)
	}
	for _, p := range cluster.Problems {
		r.Problems, r.Unread = append(r.Problems, p.Message), append(r.Unread, p.Resource)
	}
	return r, nil
}

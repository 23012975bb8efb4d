// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
)

// Reading is what the console shows of a namespace, or of all.
type Reading struct {
	Overview     *overview.Overview
	Mixes        []*v1alpha1.CapacityMix
	Limits       []*v1alpha1.ResourceLimit
	Records      []*v1alpha1.DeploymentRecord
	Environments []*v1alpha1.Environment
	// Problems are the lists that could not be read, a sentence each, and Unread the resources of these lists.
	Problems, Unread []string
}

// Read reads what the console shows of a namespace, or of all with "". Lists that the client may not read are problems of the result; any
// other failure is an error.
func Read(ctx context.Context, c client.Client, s *Settings, namespace string) (*Reading, error) {
	cluster, err := Load(ctx, c, s, namespace)
	if err != nil {
		return nil, err
	}
	if err := cluster.LoadLimits(ctx, c, namespace); err != nil {
		return nil, err
	}
	if err := cluster.LoadProducts(ctx, c, namespace); err != nil {
		return nil, err
	}
	r := &Reading{
		Mixes: cluster.Mixes, Limits: cluster.Limits, Records: cluster.Records, Environments: cluster.Environments,
		Overview: cluster.Overview(nil),
	}
	for _, p := range cluster.Problems {
		r.Problems, r.Unread = append(r.Problems, p.Message), append(r.Unread, p.Resource)
	}
	return r, nil
}

// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/overview"
)

// load reads a namespace, or all with "", and warns of what it could not read.
func load(ctx context.Context, o *command.Options, namespace string) (client.Client, *overview.Cluster, error) {
	c, err := o.Client()
	if err != nil {
		return nil, nil, err
	}
	i := live.Installation{SystemNamespace: o.SystemNamespace, SchedulerConfig: o.SchedulerConfig}
	cluster, err := i.Load(ctx, c, namespace)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range cluster.Problems {
		o.Warn("%s", p)
	}
	return c, cluster, nil
}

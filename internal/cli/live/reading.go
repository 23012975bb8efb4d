// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/console"
	"berth.dev/berth/internal/environments/change"
	"berth.dev/berth/internal/environments/render"
)

// Reading reads what the pages of the console show of a namespace, or all with "". Lists that the client may not read are problems of the
// result; any other failure is an error.
func Reading(ctx context.Context, c client.Client, s *Settings, namespace string) (*console.Reading, error) {
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
	r := &console.Reading{
		Mixes: cluster.Mixes, Limits: cluster.Limits, Records: cluster.Records, Environments: cluster.Environments,
		Overview: cluster.Overview(nil),
	}
	for _, p := range cluster.Problems {
		r.Problems, r.Unread = append(r.Problems, p.Message), append(r.Unread, p.Resource)
	}
	return r, nil
}

// EnvironmentChanger returns what starts, stops and restarts environments, at the time of a clock.
func EnvironmentChanger(now func() time.Time) console.ChangeEnvironment {
	return func(ctx context.Context, c client.Client, e *v1alpha1.Environment, verb string) (*v1alpha1.Environment, error) {
		return change.Environment(ctx, c, e, func(e *v1alpha1.Environment) error {
			switch render.Verb(verb) {
			case render.VerbStart:
				return render.Start(e)
			case render.VerbStop:
				return render.Stop(e, false)
			}
			return render.Restart(e, now())
		})
	}
}

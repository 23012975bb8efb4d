// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits/registry"
)

// resourceLimit is the name of the plugin, which this package must not import. Both the plugin and the replay use
// internal/limits.
const resourceLimit = "ResourceLimit"

// LimitArgs returns the arguments of the plugin ResourceLimit in the profile of a scheduler name, and false if the
// profile does not enable it or does not exist.
func (p *Profile) LimitArgs(schedulerName string) (*config.ResourceLimitArgs, bool) {
	args := p.replays[schedulerName].limits
	return args, args != nil
}

// listLimits lists all ResourceLimits, none if the API server does not serve them.
func listLimits(ctx context.Context, cfg *rest.Config) ([]*v1alpha1.ResourceLimit, error) {
	return listOwn[*v1alpha1.ResourceLimit](ctx, cfg, "resourcelimits", func() runtime.Object { return &v1alpha1.ResourceLimitList{} })
}

// sized is the effect of a pod's ResourceLimit on its replacement.
type sized struct {
	limit *registry.Compiled // nil: none
	// rejected is why no node is feasible, "" if some may be.
	rejected string
}

// size returns the effect of a pod's ResourceLimit. A running pod keeps its resources if the limit is deleted or
// changed, but the current limit applies to its replacement.
func (s *Snapshot) size(pod *corev1.Pod) sized {
	args, reads := s.profile.LimitArgs(pod.Spec.SchedulerName)
	if !reads {
		return sized{}
	}
	found := s.limits.With(args.DefaultNamespace).For(pod)
	switch {
	case found.Missing != "":
		return sized{rejected: registry.MissingReason(found.Missing)}
	case found.Limit == nil:
		return sized{}
	}
	if excess := found.Limit.Exceeded(pod); len(excess) > 0 {
		return sized{rejected: found.Limit.ExcessReason(excess)}
	}
	return sized{limit: found.Limit}
}

// reject sets the answer for a pod for which no node is feasible.
func (a *Answer) reject(reason string) {
	a.rejected = reason
	a.Reasons[reason] = a.Candidates
}

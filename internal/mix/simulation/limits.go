// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/client"
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

// readsLimits reports whether a profile enables the plugin ResourceLimit.
func (p *Profile) readsLimits() bool {
	for _, r := range p.replays {
		if r.limits != nil {
			return true
		}
	}
	return false
}

// listLimits lists all ResourceLimits, none if the API server does not serve them.
func listLimits(ctx context.Context, cfg *rest.Config) ([]*v1alpha1.ResourceLimit, error) {
	client, err := client.New(listOnce(cfg))
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	next := func(o metav1.ListOptions, add func(*v1alpha1.ResourceLimit)) (string, error) {
		page := &v1alpha1.ResourceLimitList{}
		err := client.Get().Resource("resourcelimits").VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Into(page)
		for i := range page.Items {
			stripMeta(&page.Items[i])
			add(&page.Items[i])
		}
		return page.Continue, err
	}
	all, err := pages(metav1.ListOptions{}, "resourcelimits", next)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return all, err
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

// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/limits"
	"berth.dev/berth/internal/kube/handler"
)

// addLimits adds the controller of ResourceLimits. addState sets the pods that it counts.
func (p *parts) addLimits() error {
	p.limits = limits.NewTracker()
	p.templates = limits.NewTemplates(p.limits.Changed)
	p.limits.Templates, p.limits.Limits, p.limits.List = p.templates, p.registry, p.limitsOf
	p.limits.DefaultNamespace = p.cfg.Limits.DefaultNamespace
	p.limits.Synced = p.hasSynced
	return limits.New(limits.Options{
		Client:     p.mgr.GetClient(),
		Recorder:   p.recorder(limits.FieldOwner),
		Clock:      clock.RealClock{},
		Tracker:    p.limits,
		Namespaces: p.cfg.Namespaces,
	}).SetupWithManager(p.mgr)
}

// limitsOf returns the limits of a namespace; they are shared and must not be changed.
func (p *parts) limitsOf(ctx context.Context, namespace string) ([]*v1alpha1.ResourceLimit, error) {
	var list v1alpha1.ResourceLimitList
	if err := p.mgr.GetClient().List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the ResourceLimits of %s: %w", namespace, err)
	}
	all := make([]*v1alpha1.ResourceLimit, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	return all, nil
}

// sizeOf returns the limit that a pod has, nil if it has none; it is shared and must not be changed.
func (p *parts) sizeOf(pod *corev1.Pod) *v1alpha1.ResourceLimit {
	if c := p.registry.For(pod).Limit; c != nil {
		return c.Limit
	}
	return nil
}

// limitHandler keeps the registry up to date.
func (p *parts) limitHandler() toolscache.ResourceEventHandler {
	return handler.Funcs[*v1alpha1.ResourceLimit]{
		Add: func(l *v1alpha1.ResourceLimit) {
			if p.registry.Set(l) {
				p.limitChanged(l.Namespace)
			}
		},
		Delete: func(l *v1alpha1.ResourceLimit) {
			p.registry.Delete(l.Namespace, l.Name)
			p.limitChanged(l.Namespace)
		},
	}
}

func (p *parts) limitChanged(namespace string) {
	if p.limits != nil {
		p.limits.LimitChanged(namespace)
	}
}

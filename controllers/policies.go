// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/policies"
	"berth.dev/berth/internal/kube/handler"
)

// addPolicies adds the controller of SchedulingPolicies.
func (p *parts) addPolicies() error {
	p.policies = policies.New(policies.Options{
		Client:     p.mgr.GetClient(),
		Clock:      clock.RealClock{},
		Pods:       p.clusterState,
		Synced:     p.hasSynced,
		Namespaces: p.cfg.Namespaces,
	})
	return p.policies.SetupWithManager(p.mgr)
}

// policyHandler passes SchedulingPolicies to their controller. It ignores changes of the status.
func (p *parts) policyHandler() toolscache.ResourceEventHandler {
	return handler.Funcs[*v1alpha1.SchedulingPolicy]{
		Add:    p.policies.Set,
		Delete: func(policy *v1alpha1.SchedulingPolicy) { p.policies.Delete(policy.Namespace, policy.Name) },
	}
}

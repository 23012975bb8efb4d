// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"slices"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/internal/cli/printers"
	kubeclient "berth.dev/berth/internal/kube/client"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/rebalance"
)

// What is needed to answer requests of others to evict pods, and to make requests.
var (
	answerNeeds  = []right{"list evictions.lifecycle.k8s.io", "watch evictions.lifecycle.k8s.io", "patch evictions/status.lifecycle.k8s.io"}
	requestNeeds = []right{"list evictionrequests.lifecycle.k8s.io", "create evictionrequests.lifecycle.k8s.io", "patch evictionrequests.lifecycle.k8s.io"}
)

// evictionRequests checks what Berth needs for the requests to evict pods, if the API server has them or the controller makes some.
func (p *patient) evictionRequests(ctx context.Context, r *Report) {
	const check = "EvictionRequests"
	requests := p.settings.ControllerErr == nil && p.settings.Controller.Mix.Rebalance.Eviction == controller.EvictionRequest
	served, err := kubeclient.Serves(ctx, p.kube.Discovery(), lifecyclev1alpha1.SchemeGroupVersion.WithResource("evictionrequests"))
	switch {
	case err != nil:
		r.add(Warn, check, "run this command again", "the API server does not tell whether it serves them: %v", err)
		return
	case !served && requests:
		r.add(Warn, check, "set mix.rebalance.eviction: API, or enable the feature gate EvictionRequestAPI of the API server",
			"mix.rebalance.eviction of berth-controller is Request, and the API server serves no EvictionRequests: moves of pods that name "+
				"a responder are refused")
		return
	case !served:
		return
	}
	p.rightsOf(ctx, r, " for "+check, answerNeeds, Warn, rbacFiles, controllerAccount)
	if requests {
		p.rightsOf(ctx, r, " for moves by "+check, requestNeeds, Warn, rbacFiles, controllerAccount)
	}
	if p.settings.ControllerErr == nil { // which mixes release replicas is not known
		p.responders(r, check)
	}
}

// responders finds pods that are evicted on request, although their mix releases them: the webhook did not see their creation.
func (p *patient) responders(r *Report, check string) {
	var named int
	var without []string
	for o, pod := range p.cluster.LivePods() {
		m, _ := p.cluster.State.Resolve(pod)
		switch {
		case m == nil, o.Spec.SchedulingGroup != nil, !rebalance.HasRevision(o), !p.cluster.Releases(o.Namespace, m):
		case pods.NamesBerth(o):
			named++
		default:
			without = append(without, podName(o))
		}
	}
	if len(without) == 0 {
		r.add(OK, check, "", "served; pods that Berth releases on request: %d", named)
		return
	}
	slices.Sort(without)
	r.add(Warn, check, "enable the webhook for their namespaces, then restart the workloads (docs/rebalancing.md, Requests to evict)",
		"a request evicts %s before the replacement is there, although rebalance.strategy releases them: they do not name Berth in "+
			"spec.evictionResponders: %s", printers.Count(len(without), "pod"), printers.Listed(without))
}

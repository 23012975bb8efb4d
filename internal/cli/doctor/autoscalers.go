// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/mix/autoscaler"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/rebalance"
)

// enableGates turns the scheduling gate on.
const enableGates = "set the chart value webhook.gates=true, which requires webhook.enabled=true, and label the namespaces " + v1alpha1.InjectLabel +
	"=enabled, or add the gate " + v1alpha1.CapacityMixGate + " to the pod templates; then restart the workloads (docs/autoscalers.md)"

// disableCosts has one client write deletion costs.
const disableCosts = "disable the feature gate " + autoscaler.CostGate + " of Karpenter, or set deletionCost: Respect on these mixes; " +
	"until then the controller restores the costs of the slots (docs/autoscalers.md)"

// autoscalers are those of the cluster, and what they do to mixes.
type autoscalers struct {
	autoscaler.Found
	// err is why they are not known.
	err error
	// costGates are the Deployments of Karpenter that have the feature gate which overwrites deletion costs.
	costGates []string
}

func (p *patient) findAutoscalers(ctx context.Context) (a autoscalers) {
	if a.Found, a.err = autoscaler.Find(ctx, p.kube); !a.Karpenter {
		return a
	}
	var deployments appsv1.DeploymentList
	if p.client.List(ctx, &deployments, client.MatchingLabels{"app.kubernetes.io/name": "karpenter"}) != nil {
		return a // what may not be read is reported elsewhere
	}
	for i := range deployments.Items {
		if d := &deployments.Items[i]; autoscaler.ManagesCosts(&d.Spec.Template.Spec) {
			a.costGates = append(a.costGates, d.Namespace+"/"+d.Name)
		}
	}
	return a
}

// ungated finds workloads for which an autoscaler launches nodes without regard to their mix.
func (p *patient) ungated(r *Report) {
	const check = "autoscalers"
	var names []string
	for _, namespace := range p.cluster.Namespaces() {
		for _, g := range p.cluster.State.Groups(namespace) {
			if g.Ungated() {
				names = append(names, namespace+": "+overview.GroupText(&g))
			}
		}
	}
	slices.Sort(names)
	switch found := p.autoscalers; {
	case found.err != nil:
		r.add(Warn, check, "run this command again", "%v", found.err)
	case !found.Any():
		r.add(OK, check, "", "neither Karpenter nor cluster-autoscaler was found")
	case len(names) > 0:
		r.add(Fail, check, enableGates, "%s cannot evaluate the mix of %s without the scheduling gate: %s", found,
			printers.Count(len(names), "workload"), printers.Listed(names))
	default:
		r.add(OK, check, "", "no governed workload lacks the scheduling gate while %s launches nodes", found)
	}
}

// requestCapacity has the controller request nodes for moves.
const requestCapacity = "set rebalance.provisioning: Placeholder in these mixes, and grant " + rbacFiles + "/placeholders (docs/rebalancing.md)"

// unprovided finds mixes whose replicas wait for free capacity that only an autoscaler would provide, and that nothing requests.
func (p *patient) unprovided(r *Report) {
	const check = "capacity for moves"
	var waiting []string
	for _, m := range p.cluster.Mixes {
		s, err := p.cluster.RebalanceSettings(nil, m)
		blocked := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionRebalancing)
		if err == nil && s.Provisioning == rebalance.Wait && blocked != nil && blocked.ObservedGeneration == m.Generation &&
			blocked.Reason == rebalance.ReasonInsufficientCapacity.Name {
			waiting = append(waiting, m.Namespace+"/"+m.Name)
		}
	}
	slices.Sort(waiting)
	switch found := p.autoscalers; {
	case !found.Any():
	case len(waiting) > 0:
		r.add(Warn, check, requestCapacity, "no node has free capacity for the moves of %s, and with provisioning: Wait nothing has %s launch one",
			printers.Listed(waiting), found)
	default:
		r.add(OK, check, "", "no mix with provisioning: Wait waits for nodes of %s", found)
	}
}

// enforces reports whether the deletion costs of the pods of a mix are those of their slots.
func enforces(m *v1alpha1.CapacityMix) bool {
	return m.Spec.DeletionCost != v1alpha1.DeletionCostsRespect
}

// deletionCosts finds replicas whose deletion cost Karpenter, or another client beside it, has overwritten.
func (p *patient) deletionCosts(r *Report) {
	const check = "deletion costs"
	var pods []string
	writers, enforced := map[string]bool{}, slices.ContainsFunc(p.cluster.Mixes, enforces)
	for o, pod := range p.cluster.LivePods() {
		found, _ := p.cluster.State.Resolve(pod)
		if found == nil || found.RespectCosts {
			continue
		}
		enforced = enforced || governing.RemovedByCost(pod.Owner) // also by annotations, and by default
		if pod.CostOverwritten() {
			_, manager := clusterstate.CostWriter(o)
			pods, writers[manager] = append(pods, podName(o)), true
		}
	}
	slices.Sort(pods)
	switch found := p.autoscalers; {
	case !found.Karpenter:
	case len(pods) > 0:
		r.add(Warn, check, disableCosts, "a scale-down does not remove the highest slots first: %s overwrote the deletion cost of %s: %s",
			strings.Join(slices.Sorted(maps.Keys(writers)), ", "), printers.Count(len(pods), "pod"), printers.Listed(pods))
	case len(found.costGates) > 0 && enforced:
		r.add(Warn, check, "disable that feature gate, or set deletionCost: Respect on all mixes (docs/autoscalers.md)",
			"the feature gate %s of Karpenter (%s) overwrites the deletion costs of pods, and a scale-down is not exact until the controller "+
				"has restored them",
			autoscaler.CostGate, strings.Join(found.costGates, ", "))
	default:
		r.add(OK, check, "", "no client has overwritten the deletion costs of the slots")
	}
}

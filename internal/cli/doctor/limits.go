// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/cli/live"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/limits/registry"
)

// limits finds ResourceLimits that cannot be used, and pods that theirs keeps waiting.
func (p *patient) limits(r *Report) {
	const check = "resource limits"
	if p.cluster.Missing(live.LimitsResource) {
		return
	}
	var broken, waiting []string
	for _, l := range p.cluster.Limits {
		if err := registry.Compile(l).Err; err != nil {
			broken = append(broken, l.Namespace+"/"+l.Name+": "+err.Error())
		}
	}
	for _, pod := range p.cluster.Pods {
		if why := p.waitsForLimit(pod); why != "" {
			waiting = append(waiting, podName(pod)+": "+why)
		}
	}
	slices.Sort(broken)
	slices.Sort(waiting)
	if len(broken) > 0 {
		r.add(Fail, check, "correct the spec of the limit", "cannot be used: %s", strings.Join(broken, "; "))
	}
	if len(waiting) > 0 {
		verb := "wait"
		if len(waiting) == 1 {
			verb = "waits"
		}
		r.add(Warn, check, "create the limit, or give the pod another one (kubectl berth explain POD)", "%s %s because of a ResourceLimit: %s",
			printers.Count(len(waiting), "pod"), verb, printers.Listed(waiting))
	}
	if len(broken)+len(waiting) == 0 {
		r.add(OK, check, "", "ResourceLimits: %d, and no pod waits because of one", len(p.cluster.Limits))
	}
}

// waitsForLimit returns why a pod waits because of its limit, "" if it does not.
func (p *patient) waitsForLimit(pod *corev1.Pod) string {
	record := p.cluster.State.Pod(pod.Namespace, pod.Name)
	if pod.Spec.NodeName != "" || record == nil || !record.Live() {
		return ""
	}
	found, enforced := p.cluster.LimitOf(pod)
	switch {
	case !enforced:
	case found.Missing != "":
		return registry.MissingReason(found.Missing)
	case found.Limit != nil:
		if excess := found.Limit.Exceeded(pod); len(excess) > 0 {
			return found.Limit.ExcessReason(excess)
		}
	}
	return ""
}

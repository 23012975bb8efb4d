// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"slices"
	"time"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/printers"
)

// patient enough: a scheduler opens a gate within moments.
const gateTakesLong = time.Minute

// gatedPods are those with the scheduling gate about which there is something to say.
type gatedPods struct {
	// waiting wait for their slot, long those that have for more than a minute.
	waiting, long []string
	// without have no mix, and the gate for nothing.
	without []string
}

func (p *patient) gatedPods() (g gatedPods) {
	for _, o := range p.cluster.Pods {
		pod := p.cluster.State.Pod(o.Namespace, o.Name)
		if pod == nil || !pod.Live() {
			continue
		}
		if pod.Gated {
			g.waiting = append(g.waiting, podName(o))
			if p.now.Sub(o.CreationTimestamp.Time) > gateTakesLong {
				g.long = append(g.long, podName(o))
			}
		}
		reason := o.Annotations[v1alpha1.GateOpenedAnnotation]
		if found, _ := p.cluster.State.Resolve(pod); found == nil && (pod.Gated || reason == v1alpha1.GateOpenedNoMix) {
			g.without = append(g.without, podName(o))
		}
	}
	for _, list := range [][]string{g.waiting, g.long, g.without} {
		slices.Sort(list)
	}
	return g
}

// gates finds pods that wait for a slot that no one gives them, and those whose
// template requests one without success.
func (p *patient) gates(r *Report) {
	const check = "scheduling gates"
	g, well := p.gatedPods(), true
	say := func(l Level, fix, format string, args ...any) {
		r.add(l, check, fix, format, args...)
		well = false
	}
	switch {
	case len(g.waiting) > 0 && p.leaderless:
		say(Fail, "start berth-scheduler; the controller releases the gate without a slot after gates.failOpenSeconds", "no scheduler is leading, so no slot is assigned to %s: %s", printers.Count(len(g.waiting), "gated pod"), printers.Listed(g.waiting))
	case len(g.long) > 0:
		say(Warn, "check the UngateFailed events of the pods and the log of berth-scheduler", "a scheduler is leading, but no slot has been assigned for more than a minute to %s: %s", printers.Count(len(g.long), "gated pod"), printers.Listed(g.long))
	}
	if len(g.without) > 0 && !p.cluster.Missing("capacitymixes.berth.dev") {
		say(Warn, "create a mix for them, or remove the gate "+v1alpha1.CapacityMixGate+" from the pod template", "no mix governs %s: %s", printers.Count(len(g.without), "gated pod"), printers.Listed(g.without))
	}
	if well {
		say(OK, "", "no gated pod waits too long for its slot")
	}
}

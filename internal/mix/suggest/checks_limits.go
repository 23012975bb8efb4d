// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"slices"
	"time"

	"berth.dev/berth/internal/kube/display"
)

func stateful(w *Workload) *found {
	if !w.Stateful {
		return nil
	}
	return ReasonStateful.because(w, "a StatefulSet may need a majority of its replicas")
}

func attachedVolume(w *Workload) *found {
	if w.AttachedClaim == "" {
		return nil
	}
	return ReasonAttachedVolume.because(w, "claim %s has a volume that is attached to one node at a time", w.AttachedClaim)
}

func unit(w *Workload) *found {
	if w.Unit <= 1 {
		return nil
	}
	return ReasonUnit.because(w, "a replica is a unit of %d pods", w.Unit)
}

func unknownOwner(w *Workload) *found {
	if w.Replaced != ByUnknown {
		return nil
	}
	return ReasonUnknownOwner.because(w, "%s is not a kind of Kubernetes: how it replaces a pod is unknown", w.Kind)
}

// Percentile is the time within which so many percent of the pods became Ready, 0 for no pods.
func Percentile(starts []time.Duration, percent int) time.Duration {
	if len(starts) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(starts))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

func slowStart(w *Workload) *found {
	half, most := Percentile(w.Starts, 50), Percentile(w.Starts, 90)
	r := ReasonSlowStart
	switch {
	case half >= verySlow:
		r = ReasonVerySlowStart
	case half <= w.Notice || w.Notice == 0:
		return nil
	}
	return r.because(w, "half of the pods took up to %s to become Ready, and 90 %% up to %s", seconds(half), seconds(most))
}

func highPriority(w *Workload) *found {
	if w.Priority <= 0 || w.Priority >= systemCritical {
		return nil
	}
	return ReasonHighPriority.because(w, "the priority of %s is %d", classOf(w), w.Priority)
}

// frequentInterruptions is about the worst band in use: the nodes to come may all be of that type.
func frequentInterruptions(w *Workload) *found {
	const frequent = highestBand - 1
	worst := Band{}
	for _, b := range w.Bands {
		if b.Band > worst.Band || b.Band == worst.Band && b.InstanceType < worst.InstanceType {
			worst = b
		}
	}
	switch worst.Band {
	case frequent:
		return ReasonFrequent.because(w, "15 to 20 %% of the spot nodes of type %s are interrupted in a month", worst.InstanceType)
	case highestBand:
		return ReasonVeryFrequent.because(w, "more than 20 %% of the spot nodes of type %s are interrupted in a month", worst.InstanceType)
	}
	return nil
}

func noPreemption(w *Workload) *found {
	if !w.NeverPreempts {
		return nil
	}
	return ReasonNoPreemption.because(w, "preemptionPolicy is Never: a replacement waits for free capacity")
}

func notPlaced(w *Workload) *found {
	if w.SchedulerName == "" || w.Governed != "" {
		return nil
	}
	f := ReasonNotPlaced.because(w, "%s places the pods, and not by a mix", w.SchedulerName)
	f.Change = w.BerthsName + ", or the scheduling gate berth.dev/capacity-mix"
	return f
}

func quarantine(w *Workload) *found {
	if len(w.Quarantined) == 0 {
		return nil
	}
	return ReasonQuarantine.because(w, "in quarantine after interruptions: %s", listed(w.Quarantined))
}

func nodesUnknown(w *Workload) *found {
	if !w.NodesUnread {
		return nil
	}
	return ReasonNodesUnknown.because(w, "you may not list nodes: saving and interruptions are unknown")
}

func unknownType(w *Workload) *found {
	if len(w.UnknownNodes) == 0 {
		return nil
	}
	return ReasonUnknownType.because(w, "%s of unknown type: %s", display.Count(len(w.UnknownNodes), "node"), listed(w.UnknownNodes))
}

func bandUnknown(w *Workload) *found {
	var names []string
	for i := range w.Bands {
		if b := &w.Bands[i]; b.Band == 0 {
			names = append(names, b.InstanceType)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return ReasonBandUnknown.because(w, "no interruption band is known of: %s", listed(names))
}

func startUnknown(w *Workload) *found {
	if len(w.Starts) > 0 {
		return nil
	}
	return ReasonStartUnknown.because(w, "no pod became Ready without a restart: the time to start is unknown")
}

// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/controller"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/sim/report"
	"berth.dev/berth/internal/sim/scenario"
)

// measure counts what the report has.
type measure struct {
	interruptions, interruptedReplicas, launched int
	// now has the sums over all workloads, series those of the past.
	now    report.Sample
	series []report.Sample

	wanted, ready, belowWanted, belowFloor float64 // replica-seconds
	offMix                                 float64 // workload-seconds
}

// tally is what a workload has now. It was counted until a time.
type tally struct {
	since time.Time
	// spot and onDemand are the Ready replicas, and bound those with a node, by capacity type.
	spot, onDemand           int
	boundSpot, boundOnDemand int
	waiting                  int
	// shown is the part of the workload in the sums.
	shown report.Sample
}

// begin has the first point of the series after what happens at the start.
func (m *measure) begin(w *world) { w.clock.At(start, w.sample) }

// sample adds a point to the series, and has the next one come.
func (w *world) sample() {
	s := w.measure.now
	s.Seconds = w.clock.Since(start).Seconds()
	w.measure.series = append(w.measure.series, s)
	w.after(w.Sample.Duration, w.sample)
}

func (m *measure) nodes(t capacity.Type, n int) {
	if t == capacity.Spot {
		m.now.SpotNodes += n
	} else {
		m.now.OnDemandNodes += n
	}
}

// changed counts a pod of a workload that changes. A pod that is nil is not there.
func (m *measure) changed(w *world, of *workload, old, pod *corev1.Pod) {
	if of == nil {
		return
	}
	m.accrue(w, of)
	of.tally.add(w, old, -1)
	of.tally.add(w, pod, 1)
	m.show(of)
}

// sized has a workload wanted in another number.
func (m *measure) sized(w *world, of *workload, wanted int32) {
	m.accrue(w, of)
	of.wanted = wanted
	m.show(of)
}

// add counts a pod, or one less. One that was released from its ReplicaSet serves, and is no replica of the mix.
func (t *tally) add(w *world, pod *corev1.Pod, n int) {
	if pod == nil || !controller.IsPodActive(pod) {
		return
	}
	replica, ofReady := 0, 0
	if w.ownerOf(pod) != nil {
		replica = n
	}
	if ready(pod) {
		ofReady = n
	}
	switch on := w.types[pod.Spec.NodeName]; {
	case pod.Spec.NodeName == "":
		t.waiting += replica
	case on == capacity.Spot:
		t.boundSpot, t.spot = t.boundSpot+replica, t.spot+ofReady
	default:
		t.boundOnDemand, t.onDemand = t.boundOnDemand+replica, t.onDemand+ofReady
	}
}

// accrue counts the time since a workload changed last, with what it had meanwhile.
func (m *measure) accrue(w *world, of *workload) {
	t, now := &of.tally, w.clock.Now()
	passed := now.Sub(t.since).Seconds()
	t.since = now
	m.wanted += passed * float64(of.wanted)
	m.ready += passed * float64(min(t.spot+t.onDemand, int(of.wanted)))
	m.belowWanted += passed * float64(max(0, int(of.wanted)-t.spot-t.onDemand))
	m.belowFloor += passed * float64(of.missingFloor())
	if n := t.boundSpot + t.boundOnDemand; of.mix != nil && of.wanted > 0 && (n == 0 || of.mix.Spot(n) != t.boundSpot) {
		m.offMix += passed
	}
}

// missingFloor is how many replicas of the floor are not Ready on on-demand nodes.
func (of *workload) missingFloor() int {
	if of.mix == nil {
		return 0
	}
	return max(0, int(min(of.mix.MinOnDemand, of.wanted))-of.tally.onDemand)
}

// show updates the sums over all workloads.
func (m *measure) show(of *workload) {
	t, before := &of.tally, of.tally.shown
	spot := min(t.spot, int(of.wanted)) // a surplus of one workload hides no gap of another one
	t.shown = report.Sample{
		Wanted: int(of.wanted), ReadySpot: spot, ReadyOnDemand: min(t.onDemand, int(of.wanted)-spot),
		Pending: t.waiting, BelowFloor: of.missingFloor(),
	}
	m.now.Wanted += t.shown.Wanted - before.Wanted
	m.now.ReadySpot += t.shown.ReadySpot - before.ReadySpot
	m.now.ReadyOnDemand += t.shown.ReadyOnDemand - before.ReadyOnDemand
	m.now.Pending += t.shown.Pending - before.Pending
	m.now.BelowFloor += t.shown.BelowFloor - before.BelowFloor
}

// run returns what a simulation gives at its end.
func (m *measure) run(w *world) *report.Run {
	const minute, hour = 60, 3600
	moves := 0
	for _, of := range w.workloads {
		m.accrue(w, of)
		moves += of.moves
	}
	r := &report.Run{
		Policy: w.policy.Name, Description: w.policy.Description, Dollars: new(float64(0)),
		WantedReplicaMinutes: m.wanted / minute, ReadyReplicaMinutes: m.ready / minute,
		BelowWantedReplicaMinutes: m.belowWanted / minute, BelowFloorReplicaMinutes: m.belowFloor / minute,
		OffMixWorkloadMinutes: m.offMix / minute,
		Moves:                 moves, Interruptions: m.interruptions, InterruptedReplicas: m.interruptedReplicas, Launched: m.launched,
		Series: m.series,
	}
	for _, p := range w.pools {
		w.count(p)
		hours := p.nodeSeconds / hour
		if p.is == capacity.Spot {
			r.SpotNodeHours += hours
		} else {
			r.OnDemandNodeHours += hours
		}
		switch {
		case hours == 0 || r.Dollars == nil:
		case p.DollarsPerHour == nil:
			r.Dollars = nil
		default:
			*r.Dollars += hours * *p.DollarsPerHour
		}
	}
	return r
}

// Notes are what the figures of a scenario lack.
func Notes(s *scenario.Scenario) (notes []string) {
	for i := range s.NodePools {
		if s.NodePools[i].DollarsPerHour == nil {
			notes = append(notes, fmt.Sprintf("node pool %s has no price: what a run costs that uses it is unknown", s.NodePools[i].Name))
		}
	}
	for i := range s.Workloads {
		mix := s.Workloads[i].Mix
		if mix == nil {
			continue
		}
		for _, field := range []struct {
			name string
			set  bool
		}{
			{"protectFloor", mix.ProtectFloor},
			{"whenDomainInterrupted", mix.WhenDomainInterrupted == v1alpha1.WhenDomainInterruptedDoNotSchedule},
			{"maxPerDomain", len(mix.MaxPerDomain) > 0},
		} {
			if field.set {
				notes = append(notes, fmt.Sprintf("workload %s: the controllers and autoscalers of a simulation take no notice of %s",
					s.Workloads[i].Name, field.name))
			}
		}
	}
	return notes
}

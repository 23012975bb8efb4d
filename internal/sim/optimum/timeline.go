// SPDX-License-Identifier: Apache-2.0

package optimum

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/internal/sim/scenario"
)

// size is what a pod or a node has: the number of pods, thousandths of a CPU, and bytes.
type size [3]float64

// plus adds a number of others.
func (s size) plus(other size, n float64) size {
	for i := range s {
		s[i] += n * other[i]
	}
	return s
}

func podSize(w *scenario.Workload) size {
	return size{1, float64(w.CPU.MilliValue()), float64(w.Memory.Value())}
}

func nodeSize(p *scenario.NodePool) size {
	return size{float64(p.Pods), float64(p.CPU.MilliValue()), float64(p.Memory.Value())}
}

// sizesOf are the different sizes of pods.
func sizesOf(s *scenario.Scenario) (sizes []size) {
	for i := range s.Workloads {
		if of := podSize(&s.Workloads[i]); s.Workloads[i].Most() > 0 && !slices.Contains(sizes, of) {
			sizes = append(sizes, of)
		}
	}
	return sizes
}

// demand is what the wanted replicas of all workloads request, and the part of it that may not be on spot nodes. Where all pods have the
// same size, it is their number only.
type demand struct{ all, onDemand size }

// with adds pods, or takes them away.
func (d demand) with(pod size, all, onDemand float64) demand {
	return demand{d.all.plus(pod, all), d.onDemand.plus(pod, onDemand)}
}

// floorOf is how many of the replicas of a workload may not be on spot nodes.
func floorOf(w *scenario.Workload, replicas int32) int {
	if w.Mix == nil {
		return 0
	}
	rule, _, err := governing.FromCapacityMix(&v1alpha1.CapacityMix{Spec: *w.Mix})
	if err != nil {
		return 0 // the scenario is validated
	}
	m := split.Mix{SpotPercent: 100, MinOnDemand: rule.Mix.MinOnDemand, MaxSpot: rule.Mix.MaxSpot}
	return m.OnDemand(int(replicas))
}

// timeline is what changes over the time of a scenario.
type timeline struct {
	pools   [][]step
	wanted  map[time.Duration]demand // the changes
	changes []time.Duration
	// settled is when all pools could have launched nodes.
	settled time.Duration
}

// lookEvery is how many changes there are between two looks at the context.
const lookEvery = 1024

func timelineOf(s *scenario.Scenario, sizes []size) *timeline {
	t := &timeline{wanted: map[time.Duration]demand{0: {}}}
	for i := range s.NodePools {
		p := &s.NodePools[i]
		t.pools = append(t.pools, most(p))
		t.settled = max(t.settled, seconds(p.LaunchSeconds))
	}
	for i := range s.Workloads {
		w := &s.Workloads[i]
		pod := podSize(w)
		if len(sizes) == 1 {
			pod = size{1}
		}
		before := int32(0)
		set := func(at time.Duration, replicas int32) {
			copies := float64(max(w.Copies, 1))
			t.wanted[at] = t.wanted[at].with(pod, copies*float64(replicas-before), copies*float64(floorOf(w, replicas)-floorOf(w, before)))
			before = replicas
		}
		set(0, w.Replicas)
		for _, e := range w.Events {
			if e.Replicas != nil {
				set(e.At.Duration, *e.Replicas)
			}
		}
	}
	times := slices.Collect(maps.Keys(t.wanted))
	for _, steps := range t.pools {
		for _, x := range steps {
			times = append(times, x.at)
		}
	}
	times = append(times, t.settled)
	slices.Sort(times)
	end := s.Duration.Duration
	t.changes = slices.DeleteFunc(slices.Compact(times), func(at time.Duration) bool { return at >= end })
	return t
}

// situation is a demand with the nodes that can be there.
type situation struct {
	all, onDemand size
	supplies      []supply
	// lasts is how long it is so in all. at is when it is so first, after all pools could have launched nodes, or else negative.
	lasts, at time.Duration
}

// situations are the different ones over time, in the order of their first time.
func (t *timeline) situations(ctx context.Context, s *scenario.Scenario, sizes []size) (list []situation) {
	known, now, next := map[string]int{}, demand{}, make([]int, len(t.pools))
	nodes := make([]int, len(t.pools))
	for i, at := range t.changes {
		if i%lookEvery == 0 && ctx.Err() != nil {
			return nil
		}
		until := s.Duration.Duration
		if i+1 < len(t.changes) {
			until = t.changes[i+1]
		}
		change := t.wanted[at]
		now = demand{now.all.plus(change.all, 1), now.onDemand.plus(change.onDemand, 1)}
		for p, steps := range t.pools {
			for next[p] < len(steps) && steps[next[p]].at <= at {
				nodes[p], next[p] = steps[next[p]].n, next[p]+1
			}
		}
		x := situation{all: now.all, onDemand: now.onDemand, at: -1, supplies: suppliesOf(s.NodePools, nodes, now, sizes)}
		key := x.key()
		n, found := known[key]
		if !found {
			n = len(list)
			known[key], list = n, append(list, x)
		}
		if list[n].lasts += until - at; at >= t.settled && list[n].at < 0 {
			list[n].at = at
		}
	}
	return list
}

// key is the same for equal situations.
func (x *situation) key() string {
	var text []byte
	for _, of := range []size{x.all, x.onDemand} {
		for _, n := range of {
			text = strconv.AppendFloat(append(text, ' '), n, 'g', -1, 64)
		}
	}
	for i := range x.supplies {
		text = strconv.AppendInt(append(text, ' '), int64(x.supplies[i].nodes), 10)
	}
	return string(text)
}

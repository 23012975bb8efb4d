// SPDX-License-Identifier: Apache-2.0

package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/overview"
)

// A bar is barWidth wide and barHeight high, of which its upper band has bandHeight, where it has what is wanted.
const (
	barWidth, barHeight, bandHeight = 1000, 16, 4
	// mostBars bounds the bars of a card.
	mostBars = 6
)

// bar is a number of replicas by type as a picture, with the same in words.
type bar struct {
	Name, URL, Words string
	// Namespace is that of a workload. It follows the name, because what does not fit is cut.
	Namespace string
	Rects     []rect
}

// Title is the whole name.
func (b bar) Title() string { return strings.TrimPrefix(b.Namespace+"/"+b.Name, "/") }

// rect is a part of a bar.
type rect struct {
	Class               string
	X, Y, Width, Height int
}

// portion is a part of a whole.
type portion struct {
	class string
	n     int
}

// fill adds parts of a whole from left to right.
func (b *bar) fill(y, height, whole int, parts []portion) {
	sum := 0
	for _, p := range parts {
		from, to := sum*barWidth/max(1, whole), (sum+p.n)*barWidth/max(1, whole)
		if sum += p.n; to > from {
			b.Rects = append(b.Rects, rect{p.class, from, y, to - from, height})
		}
	}
}

func portionsOf(s overview.Split) []portion {
	return []portion{{"spot", s.Spot}, {"on-demand", s.OnDemand}, {"unknown", s.Unknown}}
}

// workloadBars are those of the workloads with most replicas. The band of each is what is wanted.
func workloadBars(o *overview.Overview) (bars []bar, more int) {
	largest := make([]*overview.Workload, 0, len(o.Workloads))
	for i := range o.Workloads {
		largest = append(largest, &o.Workloads[i])
	}
	slices.SortStableFunc(largest, func(a, b *overview.Workload) int { return cmp.Compare(b.Replicas, a.Replicas) })
	for _, w := range largest[:min(mostBars, len(largest))] {
		desired, known := w.Desired.Get()
		actual, placed := w.Actual.Get()
		b := bar{Name: nameOf(w), Namespace: w.Namespace, URL: workloadURL(w), Words: "? of " + fmt.Sprint(w.Replicas)}
		if known {
			b.fill(0, bandHeight, w.Replicas, portionsOf(desired))
		}
		if placed {
			pending, _ := w.Pending.Get()
			b.fill(bandHeight+1, barHeight-bandHeight-1, max(w.Replicas, actual.Spot+actual.OnDemand+actual.Unknown),
				append(portionsOf(actual), portion{"pending", pending}))
			b.Words = words(append(portionsOf(actual), portion{"pending", pending}))
		}
		bars = append(bars, b)
	}
	return bars, len(largest) - len(bars)
}

// words is "7 spot, 3 on-demand" without the parts that have none.
func words(parts []portion) string {
	var all []string
	for _, p := range parts {
		if p.n > 0 {
			all = append(all, fmt.Sprintf("%d %s", p.n, p.class))
		}
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}

// placeBars are the pods of workloads by zone, or by node pool. Groups have a type and a place.
func placeBars(groups []overview.NodeGroup, none string) (bars []bar, more int) {
	places, unknown := map[string]*overview.Split{}, false
	for i := range groups {
		g := &groups[i]
		pods, known := g.Pods.Get()
		unknown = unknown || !known
		sum := places[g.Zone]
		if sum == nil {
			sum = &overview.Split{}
			places[g.Zone] = sum
		}
		switch g.Type {
		case capacity.Spot.String():
			sum.Spot += pods
		case capacity.OnDemand.String():
			sum.OnDemand += pods
		default:
			sum.Unknown += pods
		}
	}
	for name, s := range places {
		b := bar{Name: cmp.Or(name, none), Words: "?"}
		if !unknown {
			b.fill(0, barHeight, s.Spot+s.OnDemand+s.Unknown, portionsOf(*s))
			b.Words = words(portionsOf(*s))
		}
		bars = append(bars, b)
	}
	slices.SortFunc(bars, func(a, b bar) int {
		return cmp.Or(cmp.Compare(len(b.Rects), len(a.Rects)), cmp.Compare(a.Name, b.Name))
	})
	n := min(len(bars), mostBars)
	return bars[:n], len(bars) - n
}

// concern is a workload that needs attention, with the number of its replicas that are hit.
type concern struct {
	Name, URL, Why string
	Hit, Replicas  int
}

// mostConcerns bounds the workloads that the overview names.
const mostConcerns = 5

// concernsOf are the workloads that do not satisfy their mix, first those of which most replicas are hit.
func concernsOf(o *overview.Overview) (all []concern, more int) {
	for i := range o.Workloads {
		if w := &o.Workloads[i]; w.Satisfied.Is(false) {
			all = append(all, concern{
				w.Namespace + "/" + nameOf(w), workloadURL(w), w.Why(), max(1, w.Hit()), w.Replicas,
			})
		}
	}
	slices.SortStableFunc(all, func(a, b concern) int { return cmp.Compare(b.Hit, a.Hit) })
	n := min(len(all), mostConcerns)
	return all[:n], len(all) - n
}

// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/split"
)

// Split is a number of replicas for each type.
type Split struct {
	Spot     int `json:"spot"`
	OnDemand int `json:"onDemand"`
	Unknown  int `json:"unknown,omitempty"`
}

// String is "14/6": spot and on-demand, and where there are some, unknown.
func (s Split) String() string {
	if s.Unknown > 0 {
		return fmt.Sprintf("%d/%d/%d?", s.Spot, s.OnDemand, s.Unknown)
	}
	return fmt.Sprintf("%d/%d", s.Spot, s.OnDemand)
}

// Words is "14 spot, 6 on-demand".
func (s Split) Words() string {
	text := fmt.Sprintf("%d spot, %d on-demand", s.Spot, s.OnDemand)
	if s.Unknown > 0 {
		text += fmt.Sprintf(", %d on nodes of unknown type", s.Unknown)
	}
	return text
}

func (s Split) plus(t Split) Split {
	return Split{Spot: s.Spot + t.Spot, OnDemand: s.OnDemand + t.OnDemand, Unknown: s.Unknown + t.Unknown}
}

// Actual is where the replicas of a group run.
func Actual(g *clusterstate.Group) Split { return Split(g.Actual()) }

// Desired is where the replicas of a group should run.
func Desired(g *clusterstate.Group) Split {
	return Split{Spot: g.Governing.Mix.Spot(g.Replicas), OnDemand: g.Governing.Mix.OnDemand(g.Replicas)}
}

// Counts are the replicas of a workload, or of several, by where they should run and do.
type Counts struct {
	Desired  Maybe[Split] `json:"desired"`
	Actual   Maybe[Split] `json:"actual"`
	Borrowed Maybe[int]   `json:"borrowed"`
	Pending  Maybe[int]   `json:"pending"`
	// PendingByType are those by the type that they wait for.
	PendingByType Maybe[Split] `json:"pendingByType"`
	Departing     Maybe[int]   `json:"departing"`
}

// NoCounts are the counts of no replicas.
func NoCounts() Counts {
	return Counts{
		Desired: Known(Split{}), Actual: Known(Split{}), PendingByType: Known(Split{}),
		Borrowed: Known(0), Pending: Known(0), Departing: Known(0),
	}
}

// Add adds the replicas of others.
func (c *Counts) Add(o Counts) {
	splits, ints := Split.plus, func(a, b int) int { return a + b }
	c.Desired, c.Actual = sum(c.Desired, o.Desired, splits), sum(c.Actual, o.Actual, splits)
	c.PendingByType = sum(c.PendingByType, o.PendingByType, splits)
	c.Borrowed, c.Pending = sum(c.Borrowed, o.Borrowed, ints), sum(c.Pending, o.Pending, ints)
	c.Departing = sum(c.Departing, o.Departing, ints)
}

// Unread are the lists that were not read. What they would show is unknown.
type Unread struct{ Pods, Nodes, Mixes bool }

// Standing is the state of a group, or of several, as far as it is known.
type Standing struct {
	Counts    `json:",inline"`
	Satisfied Maybe[bool] `json:"satisfied"`
}

// add adds the replicas of another group.
func (s *Standing) add(o *Standing) {
	s.Add(o.Counts)
	if o.Satisfied.Is(false) || o.Satisfied.Unknown() && !s.Satisfied.Is(false) {
		s.Satisfied = o.Satisfied
	}
}

// StandingOf counts the replicas of a group. Where the nodes were not read, the report of the controller about the same replicas has
// where they run; without one, it is unknown. The mix is the CapacityMix of the group, nil for other sources.
func StandingOf(g *clusterstate.Group, m *v1alpha1.CapacityMix, unread Unread) Standing {
	pending, departing, settled := g.Counts()
	s := Standing{Counts: Counts{Desired: Known(Desired(g)), Pending: Known(pending), PendingByType: Known(Split(g.PendingByType()))}}
	if !unread.Nodes {
		s.Actual, s.Borrowed, s.Departing, s.Satisfied = Known(Actual(g)), Known(g.Borrowed()), Known(departing), Known(g.Satisfied())
		return s
	}
	report := Report(m, g)
	if report != nil && (int(report.Replicas) != g.Replicas || int(report.Pending) != pending) {
		report = nil // it is about other replicas
	}
	if report != nil {
		s.Actual, s.Borrowed, s.Departing = Known(SplitOf(report.Actual)), Known(int(report.Borrowed)), Known(int(report.Departing))
	}
	switch {
	case settled < g.Replicas: // wherever they are; of those that are too many, some may be on departing nodes
		s.Satisfied = Known(false)
	case report != nil:
		actual := split.Count(SplitOf(report.Actual))
		s.Satisfied = Known(actual.Total() == g.Replicas && g.Governing.Mix.Exact(actual))
	}
	return s
}

// SplitOf is what the controller reported.
func SplitOf(r v1alpha1.ReplicaSplit) Split {
	return Split{Spot: int(r.Spot), OnDemand: int(r.OnDemand), Unknown: int(r.Unknown)}
}

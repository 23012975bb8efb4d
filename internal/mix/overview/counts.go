// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"

	"berth.dev/berth/internal/mix/clusterstate"
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
	return Split{Spot: g.Policy.Mix.Spot(g.Replicas), OnDemand: g.Policy.Mix.OnDemand(g.Replicas)}
}

// Counts are the replicas of a workload, or of several, by where they should run and do.
type Counts struct {
	Desired  Split `json:"desired"`
	Actual   Split `json:"actual"`
	Borrowed int   `json:"borrowed"`
	Pending  int   `json:"pending"`
	// PendingByType are those by the type that they wait for.
	PendingByType Split `json:"pendingByType"`
	Departing     int   `json:"departing"`
}

// CountsOf counts the replicas of a group.
func CountsOf(g *clusterstate.Group) Counts {
	pending, departing, _ := g.Counts()
	return Counts{
		Desired: Desired(g), Actual: Actual(g), Borrowed: g.Borrowed(), Pending: pending, PendingByType: Split(g.PendingByType()),
		Departing: departing,
	}
}

// Add adds the replicas of others.
func (c *Counts) Add(o Counts) {
	c.Desired, c.Actual, c.PendingByType = c.Desired.plus(o.Desired), c.Actual.plus(o.Actual), c.PendingByType.plus(o.PendingByType)
	c.Borrowed, c.Pending, c.Departing = c.Borrowed+o.Borrowed, c.Pending+o.Pending, c.Departing+o.Departing
}

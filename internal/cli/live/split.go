// SPDX-License-Identifier: Apache-2.0

package live

import (
	"fmt"

	"berth.dev/berth/internal/mix/clusterstate"
)

// Split is a number of replicas per type.
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

func (s Split) Plus(t Split) Split {
	return Split{Spot: s.Spot + t.Spot, OnDemand: s.OnDemand + t.OnDemand, Unknown: s.Unknown + t.Unknown}
}

// Words is "14 spot, 6 on-demand".
func (s Split) Words() string {
	text := fmt.Sprintf("%d spot, %d on-demand", s.Spot, s.OnDemand)
	if s.Unknown > 0 {
		text += fmt.Sprintf(", %d on nodes of unknown type", s.Unknown)
	}
	return text
}

func Actual(g *clusterstate.Group) Split {
	c := g.Actual()
	return Split{Spot: c.Spot, OnDemand: c.OnDemand, Unknown: c.Unknown}
}

func PendingByType(g *clusterstate.Group) Split {
	c := g.PendingByType()
	return Split{Spot: c.Spot, OnDemand: c.OnDemand, Unknown: c.Unknown}
}

func Desired(g *clusterstate.Group) Split {
	return Split{Spot: g.Policy.Mix.Spot(g.Replicas), OnDemand: g.Policy.Mix.OnDemand(g.Replicas)}
}

// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
)

// Canary restricts moves to some mixes: those of a list of namespaces, and a share of all others.
type Canary struct {
	// Percent is the share, by a hash of namespace and name: a larger one adds mixes, and takes none away.
	Percent    int
	Namespaces []string
}

// Includes reports whether a mix is among those that move.
func (c *Canary) Includes(namespace, name string) bool {
	if slices.Contains(c.Namespaces, namespace) {
		return true
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(namespace + "/" + name))
	return int(h.Sum32()%100) < c.Percent
}

// canaryName is the name of a mix, and that of the workload where no CapacityMix governs it.
func canaryName(g *clusterstate.Group) (kind, name string) {
	if name, is := strings.CutPrefix(g.Governing.Source, governing.SourceCapacityMix); is {
		return "CapacityMix", name
	}
	return g.Workload.Kind, g.Workload.Name
}

func notInCanary(s *subject) (v Verdict) {
	c := s.Cluster.Canary
	kind, name := canaryName(&s.Group)
	if c == nil || c.Includes(s.Group.Key.Namespace, name) {
		return v
	}
	also := ""
	if n := len(c.Namespaces); n > 0 {
		also = fmt.Sprintf(", and those of %d namespaces", n)
	}
	return ReasonNotInCanary.because("%s %s is not in the canary: mix.rebalance.canary moves %d %% of the mixes%s", kind, name, c.Percent, also)
}

// HealthState is what a health gate has come to.
type HealthState string

// The states of a health gate.
const (
	Healthy   HealthState = "good"
	Unhealthy HealthState = "bad"
	// HealthUnknown means that there is no answer.
	HealthUnknown HealthState = "unknown"
)

// HealthStates are all states.
var HealthStates = []HealthState{Healthy, Unhealthy, HealthUnknown}

// Health is the last answer of the query of a health gate.
type Health struct {
	State HealthState
	// Detail is the value, or why there is none. It is that of the moment when the state became what it is: a status with the latest
	// value would be written for each.
	Detail string
	// At is when the state became what it is.
	At time.Time
}

// Next is the health with another answer.
func (h Health) Next(state HealthState, detail string, now time.Time) Health {
	if h.State == state {
		return h
	}
	return Health{State: state, Detail: detail, At: now}
}

func healthGate(s *subject) (v Verdict) {
	h := s.Cluster.Health
	if h == nil || h.State == Healthy {
		return v
	}
	since := ""
	if !h.At.IsZero() {
		since = " since " + clockTime(h.At)
	}
	if h.State == Unhealthy {
		return ReasonHealthGate.because("the query of mix.rebalance.healthGate is not good%s: %s", since, h.Detail)
	}
	return ReasonHealthGate.because("the query of mix.rebalance.healthGate has no answer%s, so it is unknown whether moves are safe: %s", since,
		h.Detail)
}

// SPDX-License-Identifier: Apache-2.0

package simulated_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/sim/scenario"
	"berth.dev/berth/internal/sim/spottrace"
)

const (
	spot     = v1alpha1.CapacityTypeSpot
	onDemand = v1alpha1.CapacityTypeOnDemand

	// gap is the simulated time between two steps. All that a step causes is over by then.
	gap = 2 * time.Minute
	// spotNodes and onDemandNodes are the nodes of a zone.
	spotNodes, onDemandNodes = 2, 1
	// most is the largest number of replicas. They fit into narrow spot nodes, but not with those of another revision.
	most = 9
	// narrow is how many pods a spot node takes where it has little room.
	narrow = 2
	roomy  = 110
)

var zones = []string{"a", "b", "c"}

// kind is what happens in a step.
type kind string

const (
	create    kind = "create"
	scaleUp   kind = "scale up"
	scaleDown kind = "scale down"
	rollOut   kind = "roll out"
	nothing   kind = "nothing"
	lose      kind = "lose some spot nodes"
	loseAll   kind = "lose all spot nodes"
	drain     kind = "drain an on-demand node"
	restore   kind = "restore the nodes"
)

// step is one change of a trace.
type step struct {
	kind
	// of is the workload that changes.
	of int
	// replicas are those of each workload from then on, nodes those of each pool.
	replicas, nodes []int
}

// trace is what happens in both worlds.
type trace struct {
	// name is that of the test, seed determines the steps, and kinds has what happens in them.
	name  string
	seed  uint64
	kinds []kind
	// podsOf is how many pods a spot node takes.
	podsOf int
	// mixes are those of the workloads.
	mixes []v1alpha1.CapacityMixSpec
	pools []scenario.NodePool
	steps []step
}

// draw completes a trace with what its seed determines.
func (t *trace) draw() {
	for _, zone := range zones {
		t.pools = append(t.pools, poolOf(spot, zone, spotNodes, t.podsOf), poolOf(onDemand, zone, onDemandNodes, roomy))
	}
	random := rand.New(rand.NewPCG(t.seed, 0))
	first := step{kind: create, nodes: t.full()}
	for range t.mixes {
		first.replicas = append(first.replicas, 3+random.IntN(4))
	}
	t.steps = []step{first}
	random.Shuffle(len(t.kinds), func(i, j int) { t.kinds[i], t.kinds[j] = t.kinds[j], t.kinds[i] })
	for _, k := range t.kinds {
		t.add(k, random)
		if k == lose && t.podsOf == narrow { // it is chance which replicas have no spot node
			t.add(restore, random)
		}
	}
	t.add(restore, random)
}

// loses reports whether nodes go.
func (t *trace) loses() bool {
	return slices.ContainsFunc(t.steps, func(s step) bool { return !slices.Equal(s.nodes, t.full()) })
}

// full are the nodes of each pool.
func (t *trace) full() (nodes []int) {
	for i := range t.pools {
		nodes = append(nodes, int(t.pools[i].Nodes))
	}
	return nodes
}

// add adds a step, and one before it if there are nodes to restore first.
func (t *trace) add(k kind, random *rand.Rand) {
	last := t.steps[len(t.steps)-1]
	short := !slices.Equal(last.nodes, t.full())
	if k == restore && !short {
		return
	}
	if short && (k == lose || k == loseAll || k == drain) {
		t.add(restore, random)
		last = t.steps[len(t.steps)-1]
	}
	s := step{kind: k, of: random.IntN(len(t.mixes)), replicas: slices.Clone(last.replicas), nodes: slices.Clone(last.nodes)}
	n := &s.replicas[s.of]
	switch k {
	case scaleUp:
		*n = min(most, *n+1+random.IntN(4))
	case scaleDown:
		*n = max(1, *n-1-random.IntN(4))
	case lose:
		for range 3 + random.IntN(3) {
			s.nodes[t.some(spot, s.nodes, random)]--
		}
	case loseAll:
		for i := range s.nodes {
			if t.pools[i].Spot() {
				s.nodes[i] = 0
			}
		}
	case drain:
		s.nodes[t.some(onDemand, s.nodes, random)]--
	case restore:
		s.nodes = t.full()
	}
	t.steps = append(t.steps, s)
}

// some returns a pool of a type that has a node.
func (t *trace) some(capacityType string, nodes []int, random *rand.Rand) int {
	for {
		if i := random.IntN(len(nodes)); t.pools[i].CapacityType == capacityType && nodes[i] > 0 {
			return i
		}
	}
}

func poolOf(capacityType, zone string, nodes, pods int) scenario.NodePool {
	return scenario.NodePool{
		Name: capacityType + "-" + zone, CapacityType: capacityType, Zone: "zone-" + zone, InstanceType: "m5.4xlarge",
		CPU: resource.MustParse("16"), Memory: resource.MustParse("64Gi"), Pods: int32(pods), Nodes: int32(nodes), Fixed: true,
	}
}

// appOf is the name of a workload.
func appOf(i int) string { return fmt.Sprintf("app-%d", i) }

// scenario is the trace as a simulation has it.
func (t *trace) scenario() *scenario.Scenario {
	s := &scenario.Scenario{Seed: t.seed, Duration: metav1.Duration{Duration: time.Duration(len(t.steps)) * gap}, Sample: metav1.Duration{Duration: gap}}
	for i, p := range t.pools {
		p.Availability = &scenario.Availability{Times: 1, Loaded: t.available(i)}
		s.NodePools = append(s.NodePools, p)
	}
	for i := range t.mixes {
		w := scenario.Workload{
			Namespace: "default", Name: appOf(i), Copies: 1, Replicas: int32(t.steps[0].replicas[i]), StartupSeconds: 1,
			CPU: resource.MustParse("100m"), Memory: resource.MustParse("64Mi"), Mix: &t.mixes[i],
		}
		for n, s := range t.steps[1:] {
			w.Events = append(w.Events, scenario.Event{
				At: metav1.Duration{Duration: time.Duration(n+1) * gap}, Replicas: new(int32(s.replicas[i])), Rollout: s.kind == rollOut && s.of == i,
			})
		}
		s.Workloads = append(s.Workloads, w)
	}
	return s
}

// available is how many nodes of a pool there are.
func (t *trace) available(pool int) *spottrace.Trace {
	var csv strings.Builder
	csv.WriteString("seconds,available\n")
	for i, s := range t.steps {
		fmt.Fprintf(&csv, "%d,%d\n", i*int(gap.Seconds()), s.nodes[pool])
	}
	fmt.Fprintf(&csv, "%d,0\n", len(t.steps)*int(gap.Seconds())+1)
	parsed, err := spottrace.Parse("trace.csv", strings.NewReader(csv.String()))
	if err != nil {
		panic(err) // the text is made here
	}
	return parsed
}

// SPDX-License-Identifier: Apache-2.0

// Package sim is a discrete-event simulation of several schedulers that share a
// cluster: workloads are hashed over N leaders, each of which keeps the mix of
// its own workloads and places pods on all nodes, or on a set of its own. It
// estimates what sharding would bring and cost where one scheduler is not enough; its
// inputs are the measurements of one scheduler and one API server.
package sim

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"berth.dev/berth/test/perf/bench"
)

// Config is a cluster and its schedulers.
type Config struct {
	Leaders int
	// Disjoint gives every leader an equal share of the nodes for itself.
	Disjoint bool
	Nodes    int
	// Capacity of a node, in pods: all pods are of one size.
	Capacity int
	Pods     int
	// Workloads are of different sizes, the k-th has a share in proportion to 1/k, and belong to one leader each.
	Workloads int
	// Cycle is how long a leader takes to find a node for a pod.
	Cycle time.Duration
	// Binds is how many bindings the API server makes in a second, for all leaders together.
	Binds int
	// InFlight is how many bindings a leader has under way at most.
	InFlight int
	// Lag is the time from a binding until the other leaders see it.
	Lag time.Duration
	// Backoff is when a pod is tried again that its node had no free capacity for.
	Backoff time.Duration
	// Sample is how many nodes a leader looks at for a pod; it takes the emptiest, as it sees them.
	Sample int
	Seed   uint64
}

// Validate names the first field that makes no sense.
func (c *Config) Validate() error {
	for name, n := range map[string]int{
		"leaders": c.Leaders, "nodes": c.Nodes, "capacity": c.Capacity, "pods": c.Pods, "workloads": c.Workloads, "binds": c.Binds,
		"sample": c.Sample, "inFlight": c.InFlight,
	} {
		if n <= 0 {
			return fmt.Errorf("%s: %d, must be more than 0", name, n)
		}
	}
	if c.Leaders > c.Nodes {
		return fmt.Errorf("leaders: %d, there are only %d nodes", c.Leaders, c.Nodes)
	}
	return nil
}

// Outcome is what became of the pods.
type Outcome struct {
	// Placed pods run. Stranded ones have no free capacity on any node that their leader may use.
	Placed, Stranded int
	// Refused is how often a node had no free capacity any more for what a leader had placed on it: two leaders had the same idea.
	Refused int
	// Took is the time from the first to the last binding.
	Took time.Duration
	// StdDev of the nodes' utilisation, in percentage points.
	StdDev float64
	// Busiest is the share of all pods that the busiest leader had.
	Busiest float64
}

// PodsPerSecond is the pace at which pods were placed.
func (o *Outcome) PodsPerSecond() float64 { return float64(o.Placed) / o.Took.Seconds() }

// kind of an event, and with it what the numbers of it mean.
type kind uint8

const (
	ready kind = iota // a leader takes its next pod
	bound             // the API server has bound a pod of a leader to a node
	known             // all leaders see it
	again             // a refused pod is back in its leader's queue
)

type event struct {
	at     time.Duration
	order  int // of two at one time the one that was made first
	kind   kind
	leader int
	node   int
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

type leader struct {
	// waiting pods: they are alike, so a number is enough.
	waiting int
	idle    bool
	// inFlight bindings; blocked while they are as many as may be.
	inFlight int
	blocked  bool
	// exhausted: none of its nodes has free capacity, and as no other leader uses them none will.
	exhausted bool
	// assumed are the pods that it has placed and that the others do not see yet, by node.
	assumed map[int]int
	// from and to bound its nodes.
	from, to int
}

type simulation struct {
	Config
	random  *rand.Rand
	queue   events
	made    int
	leaders []leader
	used    []int // what runs on the nodes
	public  []int // what all leaders see of it
	apiFree time.Duration
	out     Outcome
	last    time.Duration
}

// Run simulates until every pod is placed or stranded. Equal configurations have equal outcomes.
func Run(c Config) (Outcome, error) {
	if err := c.Validate(); err != nil {
		return Outcome{}, err
	}
	s := &simulation{
		Config: c, random: rand.New(rand.NewPCG(c.Seed, 1)),
		leaders: make([]leader, c.Leaders), used: make([]int, c.Nodes), public: make([]int, c.Nodes),
	}
	s.share()
	for i := range s.leaders {
		s.push(event{kind: ready, leader: i})
	}
	for s.queue.Len() > 0 {
		s.handle(heap.Pop(&s.queue).(event))
	}
	s.out.Took, s.out.StdDev = s.last, s.deviation()
	return s.out, nil
}

// share gives nodes and workloads to the leaders.
func (s *simulation) share() {
	for i := range s.leaders {
		l := &s.leaders[i]
		l.assumed, l.to = map[int]int{}, s.Nodes
		if s.Disjoint {
			l.from, l.to = i*s.Nodes/s.Leaders, (i+1)*s.Nodes/s.Leaders
		}
	}
	weights := 0.0
	for k := range s.Workloads {
		weights += 1 / float64(k+1)
	}
	left, most := s.Pods, 0
	for k := range s.Workloads {
		n := min(left, int(math.Ceil(float64(s.Pods)/float64(k+1)/weights)))
		s.leaders[s.random.IntN(s.Leaders)].waiting += n
		left -= n
	}
	s.leaders[s.random.IntN(s.Leaders)].waiting += left
	for i := range s.leaders {
		most = max(most, s.leaders[i].waiting)
	}
	s.out.Busiest = float64(most) / float64(s.Pods)
}

func (s *simulation) push(e event) {
	s.made++
	e.order = s.made
	heap.Push(&s.queue, e)
}

func (s *simulation) handle(e event) {
	l := &s.leaders[e.leader]
	switch e.kind {
	case ready:
		s.place(e.at, e.leader)
	case bound:
		if l.inFlight--; l.blocked {
			l.blocked = false
			s.push(event{at: e.at, kind: ready, leader: e.leader})
		}
		if s.used[e.node] == s.Capacity {
			s.out.Refused++
			s.forget(l, e.node)
			s.push(event{at: e.at + s.Backoff, kind: again, leader: e.leader})
			return
		}
		s.used[e.node]++
		s.out.Placed++
		s.last = e.at
		s.push(event{at: e.at + s.Lag, kind: known, leader: e.leader, node: e.node})
	case known:
		s.public[e.node]++
		s.forget(l, e.node)
	case again:
		l.waiting++
		if l.idle {
			l.idle = false
			s.push(event{at: e.at, kind: ready, leader: e.leader})
		}
	}
}

func (s *simulation) forget(l *leader, node int) {
	if l.assumed[node]--; l.assumed[node] == 0 {
		delete(l.assumed, node)
	}
}

// place has a leader find a node for one of its pods.
func (s *simulation) place(at time.Duration, i int) {
	l := &s.leaders[i]
	if l.idle = l.waiting == 0; l.idle {
		return
	}
	if l.blocked = l.inFlight == s.InFlight; l.blocked {
		return
	}
	l.waiting--
	at += s.Cycle
	node := s.find(l)
	if node < 0 {
		s.out.Stranded++
	} else {
		l.assumed[node]++
		l.inFlight++
		s.apiFree = max(s.apiFree, at) + time.Second/time.Duration(s.Binds)
		s.push(event{at: s.apiFree, kind: bound, leader: i, node: node})
	}
	s.push(event{at: at, kind: ready, leader: i})
}

// find returns the emptiest node of a sample, as far as a leader sees, then the
// first with capacity of all its nodes; -1 if there is none.
func (s *simulation) find(l *leader) int {
	if l.exhausted {
		return -1
	}
	best, least := -1, s.Capacity
	for range s.Sample {
		n := l.from + s.random.IntN(l.to-l.from)
		if u := s.public[n] + l.assumed[n]; u < least {
			best, least = n, u
		}
	}
	if best >= 0 {
		return best
	}
	start := s.random.IntN(l.to - l.from)
	for k := range l.to - l.from {
		n := l.from + (start+k)%(l.to-l.from)
		if s.public[n]+l.assumed[n] < s.Capacity {
			return n
		}
	}
	l.exhausted = s.Disjoint
	return -1
}

func (s *simulation) deviation() float64 {
	shares := make([]float64, 0, s.Nodes)
	for _, u := range s.used {
		shares = append(shares, 100*float64(u)/float64(s.Capacity))
	}
	return bench.Deviation(shares)
}

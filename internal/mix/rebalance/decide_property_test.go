// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
)

// simPod is a pod of a simulated group.
type simPod struct {
	id      string
	created int64
	slot    int
	on      capacity.Type
	place   clusterstate.Place
	ready   bool
	// evicted pods are gone, but the watch has not shown it yet.
	evicted bool
}

// sim is a group with its scheduler: a new pod claims the lowest free slot and
// finds capacity on the type of that slot.
type sim struct {
	t        *rapid.T
	m        split.Mix
	pods     []*simPod
	next     int
	inFlight int
	moves    int
}

func drawMix(t *rapid.T) split.Mix {
	m := split.New(rapid.Int32Range(0, 100).Draw(t, "spotPercent"), rapid.Int32Range(0, 6).Draw(t, "minOnDemand"))
	if rapid.IntRange(0, 3).Draw(t, "bounded") == 0 {
		m.MaxSpot = rapid.Int32Range(0, 10).Draw(t, "maxSpot")
	}
	return m
}

// drawSim makes a group of Ready pods on slots, some of them borrowed.
func drawSim(t *rapid.T, slots []int, types ...capacity.Type) *sim {
	s := &sim{t: t, m: drawMix(t)}
	for _, slot := range slots {
		p := s.add(slot)
		p.on, p.place, p.ready = s.m.TypeOf(slot), clusterstate.Settled, true
		if rapid.IntRange(0, 2).Draw(t, "elsewhere") == 0 {
			p.on = rapid.SampledFrom(types).Draw(t, "on")
		}
	}
	return s
}

func (s *sim) add(slot int) *simPod {
	s.next++
	p := &simPod{id: fmt.Sprintf("p-%03d", s.next), created: int64(s.next), slot: slot, place: clusterstate.Pending}
	p.on = s.m.TypeOf(slot)
	s.pods = append(s.pods, p)
	return p
}

// group is what the controller sees: the cluster state, and what it evicted itself.
func (s *sim) group() clusterstate.Group {
	g := groupOn(s.m)
	g.Replicas = len(s.pods)
	going := map[types.UID]bool{}
	for _, p := range s.pods {
		record := &clusterstate.Pod{Namespace: "shop", Name: p.id, UID: types.UID(p.id), Ready: p.ready, SchedulerName: placing, Created: p.created, Owner: ownerOf("rs")}
		g.Assignments = append(g.Assignments, clusterstate.Assignment{Pod: record, Place: p.place, Assignment: split.Assignment{
			Wants: s.m.TypeOf(p.slot), Pod: split.Pod{ID: p.id, Created: p.created, Slot: p.slot, On: p.on},
		}})
		if p.evicted {
			going[record.UID] = true
		}
	}
	slices.SortFunc(g.Assignments, func(a, b clusterstate.Assignment) int { return a.Slot - b.Slot })
	return g.Going(going)
}

func (s *sim) choose(limit int) (rebalance.Verdict, clusterstate.Group) {
	in := outOfMix()
	in.Group = s.group()
	in.Settings.MaxConcurrent, in.Cluster.Limit = limit, 1000
	in.History.InFlight, in.Cluster.InFlight = s.inFlight, s.inFlight
	return rebalance.Choose(in), in.Group
}

func (s *sim) pick(of func(*simPod) bool) *simPod {
	for _, p := range s.pods {
		if of(p) {
			return p
		}
	}
	return nil
}

func (s *sim) evict(uid types.UID) {
	s.pick(func(p *simPod) bool { return p.id == string(uid) }).evicted = true
	s.inFlight++
	s.moves++
}

// vanish lets the watch show that the first evicted pod is gone: its
// replacement is there, and claims the lowest free slot.
func (s *sim) vanish() bool {
	old := s.pick(func(p *simPod) bool { return p.evicted })
	if old == nil {
		return false
	}
	s.pods = slices.DeleteFunc(s.pods, func(p *simPod) bool { return p == old })
	var taken split.Slots
	for _, p := range s.pods { // those that are still to vanish hold their slots until then
		taken.Take(p.slot)
	}
	s.add(taken.Lowest())
	return true
}

func (s *sim) bind() bool {
	p := s.pick(func(p *simPod) bool { return p.place == clusterstate.Pending })
	if p == nil {
		return false
	}
	p.place = clusterstate.Settled
	return true
}

func (s *sim) becomeReady() bool {
	p := s.pick(func(p *simPod) bool { return p.place == clusterstate.Settled && !p.ready })
	if p == nil {
		return false
	}
	p.ready = true
	s.inFlight--
	return true
}

func (s *sim) readyOnDemand() (n int) {
	for _, p := range s.pods {
		if p.place == clusterstate.Settled && p.ready && !p.evicted && p.on == capacity.OnDemand {
			n++
		}
	}
	return n
}

// run plays moves until none is chosen and nothing is under way, in any order
// of what goes on at the same time.
func (s *sim) run(limit int) rebalance.Verdict {
	floor := min(int(s.m.MinOnDemand), len(s.pods), s.readyOnDemand())
	for range 20 * (len(s.pods) + 1) {
		v, g := s.choose(limit)
		act := rapid.IntRange(0, 2).Draw(s.t, "next")
		if v.Reason == rebalance.ReasonMove && (act == 0 || s.inFlight == 0) {
			require.Contains(s.t, idsOf(g), string(v.Pod.UID))
			s.evict(v.Pod.UID)
			require.LessOrEqual(s.t, s.inFlight, limit, "replicas being moved")
			require.GreaterOrEqual(s.t, s.readyOnDemand(), floor, "Ready replicas on on-demand")
			continue
		}
		if !s.becomeReady() && !s.bind() && !s.vanish() {
			require.Zero(s.t, s.inFlight)
			return v
		}
	}
	s.t.Fatal("the moves do not come to an end")
	return rebalance.Verdict{}
}

func idsOf(g clusterstate.Group) (ids []string) {
	for _, s := range g.Assignments {
		if s.Place == clusterstate.Settled {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

func (s *sim) exact() bool {
	g := s.group()
	return g.Satisfied()
}

func upTo(n int) []int {
	slots := make([]int, n)
	for i := range slots {
		slots[i] = i
	}
	return slots
}

func TestMovesEndInTheExactSplitAndAreTheFewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSim(t, upTo(rapid.IntRange(0, 12).Draw(t, "replicas")), sp, od)
		g := s.group()
		want := len(g.WrongSide())
		v := s.run(rapid.IntRange(1, 4).Draw(t, "maxConcurrent"))
		require.Equal(t, rebalance.ReasonOnTarget, v.Reason, v.Message)
		require.True(t, s.exact())
		require.Equal(t, want, s.moves)
	})
}

func TestMovesFromNodesOfUnknownTypeEndInTheExactSplitToo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(t, "replicas")
		s := drawSim(t, upTo(n), sp, od, capacity.Unknown)
		v := s.run(rapid.IntRange(1, 4).Draw(t, "maxConcurrent"))
		require.Equal(t, rebalance.ReasonOnTarget, v.Reason, v.Message)
		require.True(t, s.exact())
		require.LessOrEqual(t, s.moves, n, "nobody moves twice")
	})
}

// Slots below the size of the group are free where its size shrank past pods
// that were not Ready, and until it grows again.
func TestWithFreeSlotsEveryMoveGainsAndNoGainHidesNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.SliceOfNDistinct(rapid.IntRange(0, 20), 0, 12, rapid.ID).Draw(t, "slots")
		s := drawSim(t, slots, sp, od)
		g := s.group()
		wrong := len(g.WrongSide())
		v := s.run(1)
		g = s.group()
		left := len(g.WrongSide())
		require.Equal(t, wrong-left, s.moves, "each move gains one")
		if v.Reason == rebalance.ReasonOnTarget {
			require.Zero(t, left)
			return
		}
		require.Equal(t, rebalance.ReasonNoGain, v.Reason, v.Message)
		over := g.WrongSide()[0].On
		for _, assignment := range g.Assignments {
			var taken split.Slots
			for _, other := range g.Assignments {
				if other.ID != assignment.ID {
					taken.Take(other.Slot)
				}
			}
			require.False(t, assignment.On == over && s.m.TypeOf(taken.Lowest()) != over, "pod %s could have moved", assignment.ID)
		}
	})
}

// With several being moved at once the replacements are counted on the slots
// that they will claim, so no replica is moved without success.
func TestParallelMovesWithFreeSlotsAreNotMoreThanSequentialOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.SliceOfNDistinct(rapid.IntRange(0, 20), 0, 12, rapid.ID).Draw(t, "slots")
		s := drawSim(t, slots, sp, od)
		g := s.group()
		wrong := len(g.WrongSide())
		s.run(rapid.IntRange(2, 4).Draw(t, "maxConcurrent"))
		g = s.group()
		require.Equal(t, wrong-len(g.WrongSide()), s.moves)
	})
}

func TestGrowthMovesNoReplica(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &sim{t: t, m: drawMix(t)}
		for i := range rapid.IntRange(0, 30).Draw(t, "replicas") {
			s.add(i)
			v, _ := s.choose(1)
			require.Equal(t, rebalance.ReasonOnTarget, v.Reason, "with a pending pod: %s", v.Message)
			s.bind()
			v, _ = s.choose(1)
			require.Equal(t, rebalance.ReasonOnTarget, v.Reason, "with a pod that starts: %s", v.Message)
			if rapid.Bool().Draw(t, "becomes Ready") {
				s.pods[len(s.pods)-1].ready = true
			}
		}
	})
}

// A replica that is gone without a replacement, for example because of a missing quota,
// makes no other replica move.
func TestMissingReplicasMoveNoReplica(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "replicas")
		s := &sim{t: t, m: drawMix(t)}
		for i := range n {
			p := s.add(i)
			p.place, p.ready = clusterstate.Settled, true
		}
		in := outOfMix()
		in.Group = s.group()
		for range rapid.IntRange(1, n).Draw(t, "missing") {
			i := rapid.IntRange(0, len(in.Group.Assignments)-1).Draw(t, "who")
			in.Group.Assignments = slices.Delete(slices.Clone(in.Group.Assignments), i, i+1)
		}
		require.Equal(t, rebalance.ReasonOnTarget, rebalance.Choose(in).Reason)
	})
}

func FuzzChoose(f *testing.F) {
	f.Add(int32(70), int32(2), []byte{0, 1, 2, 9, 200})
	f.Fuzz(func(t *testing.T, percent, floor int32, raw []byte) {
		m := split.New(percent, floor)
		if m.Validate() != nil || len(raw) > 200 {
			t.Skip()
		}
		in := outOfMix()
		in.Group = groupOn(m)
		used := map[int]bool{}
		for i, b := range raw {
			slot := i * (1 + int(b>>6))
			if used[slot] {
				continue
			}
			used[slot] = true
			assignment := replica(m, slot, capacity.Type(b%3))
			assignment.Place = clusterstate.Place(b / 3 % 3)
			if assignment.Place != clusterstate.Settled {
				assignment.On = assignment.Wants
			}
			in.Group.Assignments = append(in.Group.Assignments, assignment)
		}
		slices.SortFunc(in.Group.Assignments, func(a, b clusterstate.Assignment) int { return a.Slot - b.Slot })
		in.Group.Replicas = len(in.Group.Assignments) + int(percent%3)
		v := rebalance.Choose(in)
		if v.Reason == nil || v.Reason == rebalance.ReasonMove && (v.Pod == nil || v.Target == capacity.Unknown) {
			t.Fatalf("%+v", v)
		}
	})
}

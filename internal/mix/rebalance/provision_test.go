// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
)

const patience = 10 * time.Minute

// roomless is outOfMix where no node has free capacity, and it may be requested.
func roomless() *rebalance.Input {
	in := outOfMix()
	in.Settings.Provisioning = rebalance.WithPlaceholder
	in.MayFit = func(capacity.Type, *clusterstate.Pod) bool { return false }
	return in
}

// asking marks the replicas that have a placeholder already.
func asking(in *rebalance.Input, replicas ...string) {
	in.Skip = map[string]rebalance.Verdict{}
	for _, name := range replicas {
		in.Skip[name] = rebalance.Verdict{Reason: rebalance.ReasonProvisioning, Target: sp}
	}
}

func TestProvisionRequestsCapacityIfOnlyThatIsMissing(t *testing.T) {
	in := roomless()
	v, ok := rebalance.Provision(in)
	require.True(t, ok)
	assert.Equal(t, "web-4", v.Pod.Name, "as it would be moved")
	assert.Equal(t, capacity.Spot, v.Target)
	assert.Equal(t, "no spot node has free capacity for the replacement of pod web-4", v.Message)

	asking(in, "web-4")
	v, ok = rebalance.Provision(in)
	require.True(t, ok)
	assert.Equal(t, "web-2", v.Pod.Name)
	asking(in, "web-4", "web-2")
	_, ok = rebalance.Provision(in)
	assert.False(t, ok, "one for each")

	in = roomless()
	in.Group = groupOn(split.New(70, 2), sp, sp, od, sp, sp) // one has to move, and either of two may
	v, ok = rebalance.Provision(in)
	require.True(t, ok)
	asking(in, v.Pod.Name)
	_, ok = rebalance.Provision(in)
	assert.False(t, ok, "one is enough")

	in = roomless()
	in.MayFit = outOfMix().MayFit
	_, ok = rebalance.Provision(in)
	assert.False(t, ok, "there seems to be room")
	in.Skip = map[string]rebalance.Verdict{"web-4": {Reason: rebalance.ReasonInsufficientCapacity, Pod: in.Group.Assignments[4].Pod, Target: sp}}
	v, ok = rebalance.Provision(in)
	require.True(t, ok, "the filters say that there is none")
	assert.Equal(t, "web-4", v.Pod.Name)
}

func TestProvisionRequestsNothingForReplicasThatStay(t *testing.T) {
	in := roomless()
	in.Settings.Provisioning = rebalance.Wait
	_, ok := rebalance.Provision(in)
	assert.False(t, ok, "the mix waits for nodes that are there")
	for _, c := range causes {
		if c.want == rebalance.ReasonInsufficientCapacity {
			continue
		}
		in := roomless()
		c.spoil(in)
		_, ok := rebalance.Provision(in)
		assert.False(t, ok, c.name)
	}
}

// A replica below a free slot may move instead of another: there are never
// more placeholders than replicas that have to move.
func TestThereAreNeverMorePlaceholdersThanReplicasThatHaveToMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := upTo(rapid.IntRange(0, 12).Draw(t, "replicas"))
		if rapid.Bool().Draw(t, "with gaps") {
			slots = rapid.SliceOfNDistinct(rapid.IntRange(0, 20), 0, 12, rapid.ID).Draw(t, "slots")
		}
		s := drawSim(t, slots, sp, od, capacity.Unknown)
		in := roomless()
		in.Group = s.group()
		in.Settings.MaxConcurrent = rapid.IntRange(1, 15).Draw(t, "maxConcurrent")
		in.Cluster.Limit = rapid.IntRange(1, 15).Draw(t, "limit")
		in.Skip = map[string]rebalance.Verdict{}
		most := min(len(in.Group.WrongSide()), in.Settings.MaxConcurrent, in.Cluster.Limit)
		for created := 0; ; created++ {
			v, ok := rebalance.Provision(in)
			if !ok {
				return
			}
			require.Less(t, created, most)
			require.NotContains(t, in.Skip, string(v.Pod.UID), "one for each replica")
			in.Skip[string(v.Pod.UID)] = rebalance.Verdict{Reason: rebalance.ReasonProvisioning, Target: v.Target}
			in.History.InFlight++
			in.Cluster.InFlight++
		}
	})
}

func TestNext(t *testing.T) {
	running := func(h *rebalance.Holder) { h.Running = true }
	lost := func(h *rebalance.Holder) { h.Lost = true }
	old := func(h *rebalance.Holder) { h.Created = noon.Add(-patience) }
	tests := map[string]struct {
		replica types.UID
		in      func(*rebalance.Input)
		holders []func(*rebalance.Holder)
		want    rebalance.Step
	}{
		"it is pending":              {want: rebalance.StepWait},
		"it is pending for too long": {holders: []func(*rebalance.Holder){old}, want: rebalance.StepFail},
		"it runs":                    {holders: []func(*rebalance.Holder){running}, want: rebalance.StepMove},
		"it runs at the last moment": {holders: []func(*rebalance.Holder){running, old}, want: rebalance.StepMove},
		"it is lost":                 {holders: []func(*rebalance.Holder){lost}, want: rebalance.StepFail},
		"it ran and is lost":         {holders: []func(*rebalance.Holder){running, lost}, want: rebalance.StepFail},
		"it is of another type":      {holders: []func(*rebalance.Holder){running, func(h *rebalance.Holder) { h.Target = od }}, want: rebalance.StepDrop},
		"its replica is gone":        {replica: "gone", holders: []func(*rebalance.Holder){running}, want: rebalance.StepDrop},
		"its replica is gone while nothing is moved": {
			replica: "gone", in: func(in *rebalance.Input) { in.Cluster.GraceUntil = noon.Add(time.Second) }, want: rebalance.StepDrop,
		},
		"its replica is in place": {replica: "web-3", holders: []func(*rebalance.Holder){running}, want: rebalance.StepDrop},
		"its replica's node goes away": {
			in: func(in *rebalance.Input) { in.Group.Assignments[4].Place = clusterstate.Departing }, holders: []func(*rebalance.Holder){running}, want: rebalance.StepDrop,
		},
		"the mix requests room no longer": {
			in: func(in *rebalance.Input) { in.Settings.Provisioning = rebalance.Wait }, holders: []func(*rebalance.Holder){running}, want: rebalance.StepDrop,
		},
		"it takes its place in the budgets itself": {
			in:      func(in *rebalance.Input) { in.History.InFlight, in.Cluster.InFlight = 2, 5 },
			holders: []func(*rebalance.Holder){running}, want: rebalance.StepMove,
		},
		"something keeps its replica for too long": {
			in: func(in *rebalance.Input) { in.Budgets = budgetOf(0) }, holders: []func(*rebalance.Holder){running, old}, want: rebalance.StepFail,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			in := roomless()
			asking(in, "web-4")
			if tc.in != nil {
				tc.in(in)
			}
			h := rebalance.Holder{Target: sp, Created: noon.Add(-patience + time.Second)}
			for _, change := range tc.holders {
				change(&h)
			}
			replica := tc.replica
			if replica == "" {
				replica = "web-4"
			}
			step, v := in.Next(replica, h, patience)
			assert.Equal(t, tc.want, step, "%+v", v)
			if step == rebalance.StepMove {
				assert.Equal(t, replica, v.Pod.UID)
				assert.Equal(t, capacity.Spot, v.Target)
			}
		})
	}
}

func TestARunningPlaceholderLiftsOnlyCapacityAndBudgets(t *testing.T) {
	for _, c := range causes {
		in := roomless()
		asking(in, "web-4", "web-3")
		c.spoil(in)
		for uid, v := range in.Skip { // a hold has the type of the slot
			v.Target = sp
			in.Skip[uid] = v
		}
		replica := types.UID("web-4")
		if c.want == rebalance.ReasonNoGain {
			replica = "web-3"
		}
		want := rebalance.StepWait
		switch c.want {
		case rebalance.ReasonMixBudget, rebalance.ReasonClusterBudget, rebalance.ReasonInsufficientCapacity:
			want = rebalance.StepMove
		default:
			if c.want.DropsPlaceholder || c.effect {
				want = rebalance.StepDrop
			}
		}
		step, v := in.Next(replica, rebalance.Holder{Target: sp, Created: noon, Running: true}, patience)
		assert.Equal(t, want, step, "%s: %+v", c.name, v)
	}
}

// What moves with a placeholder would have moved without one, had there been capacity.
func TestAPlaceholderMovesOnlyWhatCapacityWouldMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := roomless()
		changed := false
		for i := range causes {
			c := &causes[i]
			if c.want == reasonHeld || c.want == rebalance.ReasonInsufficientCapacity || changed && changesGroup(*c) || rapid.IntRange(0, 9).Draw(t, c.name) > 0 {
				continue
			}
			changed = changed || changesGroup(*c)
			c.spoil(in)
		}
		slot := rapid.IntRange(0, 4).Draw(t, "slot")
		replica := types.UID(fmt.Sprintf("web-%d", slot))
		asking(in, string(replica))
		h := rebalance.Holder{
			Target: rapid.SampledFrom([]capacity.Type{sp, od}).Draw(t, "target"), Created: noon.Add(-time.Duration(rapid.IntRange(0, 20).Draw(t, "age")) * time.Minute),
			Running: rapid.Bool().Draw(t, "running"), Lost: rapid.Bool().Draw(t, "lost"),
		}
		step, v := in.Next(replica, h, patience)
		if step != rebalance.StepMove {
			return
		}
		require.True(t, h.Running && !h.Lost)
		require.Equal(t, replica, v.Pod.UID)
		require.Equal(t, h.Target, v.Target)
		in.MayFit, in.Skip = outOfMix().MayFit, map[string]rebalance.Verdict{}
		in.History.InFlight, in.Cluster.InFlight = 0, 0
		for _, s := range in.Group.Assignments { // all others are left alone
			if s.Pod.UID != replica {
				in.Skip[string(s.Pod.UID)] = rebalance.Verdict{Reason: reasonHeld}
			}
		}
		alone := decide(in)
		require.Equal(t, rebalance.ReasonMove, alone.Reason, alone.Message)
		require.Equal(t, replica, alone.Pod.UID)
	})
}

func TestHandoverOf(t *testing.T) {
	wait := governing.Mix{Mix: split.New(70, 2)}
	borrows := governing.Mix{Mix: split.New(70, 2), BorrowSpot: true, BorrowOnDemand: true}
	later := borrows
	later.SpotWait = time.Minute
	tests := map[string]struct {
		p               governing.Mix
		target          capacity.Type
		identity, gated bool
		want            rebalance.Handover
	}{
		"the replacement waits for spot":                            {wait, sp, false, false, rebalance.AfterEviction},
		"the replacement waits for on-demand":                       {wait, od, false, false, rebalance.AfterEviction},
		"the replacement waits for spot at first":                   {later, sp, false, false, rebalance.AfterEviction},
		"it would borrow on-demand":                                 {borrows, sp, false, false, rebalance.BeforeEviction},
		"it would borrow spot":                                      {borrows, od, false, false, rebalance.BeforeEviction},
		"it would borrow, but for the gate":                         {borrows, od, false, true, rebalance.AfterEviction},
		"it comes when the replica is gone, and waits":              {wait, od, true, false, rebalance.OnceGone},
		"it comes when the replica is gone, with the gate":          {borrows, sp, true, true, rebalance.OnceGone},
		"it comes when the replica is gone, and would borrow":       {borrows, sp, true, false, rebalance.BeforeEviction},
		"it comes when the replica is gone, and waits at first":     {later, sp, true, false, rebalance.OnceGone},
		"spot waits at first, but it is on-demand that is borrowed": {later, od, true, false, rebalance.BeforeEviction},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g := groupOn(tc.p.Mix, od, od)
			g.Governing, g.Identity, g.Gated = &tc.p, tc.identity, tc.gated
			assert.Equal(t, tc.want, rebalance.HandoverOf(&g, tc.target))
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"pgregory.net/rapid"

	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

const (
	sp = capacity.Spot
	od = capacity.OnDemand
)

// group has a Ready pod on slot i on the i-th type, by a mix whose slots 0 and 1
// are on-demand and 2 to 4 spot.
func group(on ...capacity.Type) clusterstate.Group {
	m := split.New(70, 2)
	g := clusterstate.Group{
		Key: policy.GroupKey{Namespace: "shop", ID: "rs"}, Policy: &policy.Policy{Source: "capacitymix/web", Mix: m}, Replicas: len(on),
		Workload: clusterstate.Workload{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", Revision: "web-7d", UID: "web"},
	}
	for i, t := range on {
		name := fmt.Sprintf("web-%d", i)
		p := &clusterstate.Pod{Namespace: "shop", Name: name, UID: types.UID(name), Node: "node-" + name, Ready: true}
		g.Assignments = append(g.Assignments, clusterstate.Assignment{Pod: p, Assignment: split.Assignment{Wants: m.TypeOf(i), Pod: split.Pod{ID: name, Slot: i, On: t}}})
	}
	return g
}

// moveOf is a move to spot that began when there were web-0 to web-3: of group, web-4 may be the replacement.
func moveOf(uid types.UID, ago time.Duration) workloads.Move {
	return workloads.Move{UID: uid, Namespace: "shop", Name: string(uid), Started: noon.Add(-ago), Target: sp, Slot: 4, Before: fourBefore}
}

// movedTo is a move to another type, and to a slot.
func movedTo(m workloads.Move, t capacity.Type, slot int) workloads.Move {
	m.Target, m.Slot = t, slot
	return m
}

var fourBefore = func() *[]clusterstate.Assignment {
	g := group(od, od, sp, sp)
	return &g.Assignments
}()

// doubted is a move of which it is not known for so long whether the pod was evicted.
func doubted(m workloads.Move, left time.Duration) workloads.Move {
	m.DoubtUntil = noon.Add(left)
	return m
}

// outcomes are how some moves ended.
func outcomes(ended []ending) (list []outcome) {
	for _, end := range ended {
		list = append(list, end.outcome)
	}
	return list
}

var testLimits = limits{backoff: time.Minute, maxBackoff: 10 * time.Minute, timeout: 5 * time.Minute}

func withMix(g clusterstate.Group, m split.Mix) clusterstate.Group {
	g.Policy = &policy.Policy{Source: g.Policy.Source, Mix: m}
	return g
}

// reborn has another pod of the same name on a slot, as a StatefulSet makes it.
func reborn(g clusterstate.Group, slot int) clusterstate.Group {
	g.Assignments[slot].Pod.UID += " again"
	return g
}

func TestJudge(t *testing.T) {
	change := func(g clusterstate.Group, of func(*clusterstate.Group)) clusterstate.Group {
		of(&g)
		return g
	}
	tests := map[string]struct {
		move  workloads.Move
		group clusterstate.Group
		want  outcome
	}{
		"its replacement is on its side":                  {moveOf("gone", time.Minute), group(od, od, sp, sp, sp), succeeded},
		"its replacement is on the wrong side":            {moveOf("gone", time.Minute), group(od, od, sp, sp, od), failed},
		"others came to be on the wrong side meanwhile":   {moveOf("gone", time.Minute), group(od, od, od, od, sp), succeeded},
		"its slot has another type by a changed mix":      {moveOf("gone", time.Minute), withMix(group(od, od, sp, sp, od), split.New(0, 0)), succeeded},
		"it was moved to the type of a former mix":        {moveOf("gone", time.Minute), withMix(group(od, od, sp, sp, sp), split.New(0, 0)), succeeded},
		"one of two new replicas is on its side":          {moveOf("gone", time.Minute), group(od, od, sp, sp, sp, od), succeeded},
		"a replica with its name tells":                   {moveOf("web-5", time.Minute), reborn(group(od, od, sp, sp, sp, od), 5), failed},
		"another replica with its name tells":             {moveOf("web-4", time.Minute), reborn(group(od, od, sp, sp, od, sp), 4), failed},
		"an earlier leader recorded no type":              {movedTo(moveOf("gone", time.Minute), capacity.Unknown, 0), group(od, od, sp, sp, sp), succeeded},
		"the pod is still there":                          {moveOf("web-4", time.Minute), group(od, od, sp, sp, sp), moving},
		"a replacement is not there yet":                  {moveOf("gone", time.Minute), change(group(od, od, sp, sp), func(g *clusterstate.Group) { g.Replicas = 5 }), moving},
		"the old pod, or one before it, still terminates": {moveOf("gone", time.Hour), change(group(od, od, sp, sp, sp), func(g *clusterstate.Group) { g.Terminating = 2 }), succeeded},
		"the owner ended":                                 {moveOf("gone", time.Minute), change(group(od, od, sp, sp), func(g *clusterstate.Group) { g.Replicas, g.Ended = 5, true }), abandoned},
		"it may not have been evicted, and lives":         {doubted(moveOf("web-4", time.Minute), 0), group(od, od, sp, sp, sp), notEvicted},
		"it may not have been evicted, and still lives":   {doubted(moveOf("web-4", time.Minute), 1), group(od, od, sp, sp, sp), moving},
		"it may not have been evicted, and is gone":       {doubted(moveOf("gone", time.Minute), 0), group(od, od, sp, sp, sp), succeeded},
		"the replacement is pending":                      {moveOf("gone", time.Minute), change(group(od, od, sp, sp, sp), func(g *clusterstate.Group) { g.Assignments[4].Place = clusterstate.Pending }), moving},
		"the replacement's node departs":                  {moveOf("gone", time.Minute), change(group(od, od, sp, sp, sp), func(g *clusterstate.Group) { g.Assignments[4].Place = clusterstate.Departing }), moving},
		"the replacement is not Ready, just in time":      {moveOf("gone", 5*time.Minute-1), change(group(od, od, sp, sp, sp), func(g *clusterstate.Group) { g.Assignments[4].Pod.Ready = false }), moving},
		"the replacement is not Ready, past the time":     {moveOf("gone", 5*time.Minute), change(group(od, od, sp, sp, sp), func(g *clusterstate.Group) { g.Assignments[4].Pod.Ready = false }), timedOut},
		"it is complete past the time":                    {moveOf("gone", time.Hour), group(od, od, sp, sp, sp), succeeded},
		"a surplus pod of a surge does not keep it open":  {moveOf("gone", time.Minute), change(group(od, od, sp, sp, sp), func(g *clusterstate.Group) { g.Replicas = 4 }), succeeded},
		"the workload was scaled to nothing in the midst": {moveOf("gone", time.Minute), clusterstate.Group{Policy: &policy.Policy{Mix: split.New(70, 2)}}, succeeded},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, judge([]workloads.Move{tc.move}, &tc.group, tc.group.Replicas, noon, testLimits)[0].outcome)
		})
	}
}

// A rollout with minReadySeconds waits for each replica to be available: so does a move.
func TestAMoveEndsWhenItsReplacementIsAvailable(t *testing.T) {
	g := group(od, od, sp, sp, sp)
	g.MinReady = 10 * time.Minute
	g.Assignments[4].Pod.ReadySince = noon.Unix()
	old := workloads.Entry{Moves: []workloads.Move{moveOf("gone", time.Second)}}
	for after, want := range map[time.Duration][]outcome{
		0: nil, 10*time.Minute - 1: nil, // longer than the time for a move, in which it became Ready
		10 * time.Minute: {succeeded},
	} {
		_, ended := advance(old, g, noon.Add(after), testLimits)
		assert.Equal(t, want, outcomes(ended), "%s after it became Ready", after)
	}
	g.Assignments[4].Pod.Ready = false
	_, ended := advance(old, g, noon.Add(15*time.Minute), testLimits)
	assert.Equal(t, []outcome{timedOut}, outcomes(ended), "it did not become Ready in the time for a move")
}

func TestObserveKeepsSinceWhenAWorkloadIsOutOfItsMix(t *testing.T) {
	e, _ := advance(workloads.Entry{}, group(od, od, sp, sp, od), noon, testLimits)
	assert.Equal(t, noon, e.WrongSince)
	e, _ = advance(e, group(od, od, sp, sp, od), noon.Add(time.Minute), testLimits)
	assert.Equal(t, noon, e.WrongSince, "not again and again")
	rolling := group(od, od, sp, sp, od)
	rolling.Rollout.Rolling = true
	e, _ = advance(e, rolling, noon.Add(2*time.Minute), testLimits)
	assert.Equal(t, noon.Add(2*time.Minute), e.RollingSince)
	e, _ = advance(e, group(od, od, sp, sp, sp), noon.Add(3*time.Minute), testLimits)
	assert.Zero(t, e.WrongSince)
	assert.Zero(t, e.RollingSince)
}

func TestObserveCountsFailuresAndBacksOff(t *testing.T) {
	e := workloads.Entry{Moves: []workloads.Move{moveOf("a", time.Minute)}}
	wrong := group(od, od, sp, sp, od)
	e, ended := advance(e, wrong, noon, testLimits)
	assert.Equal(t, []outcome{failed}, outcomes(ended))
	assert.Empty(t, e.Moves)
	assert.Equal(t, int32(1), e.Failures)
	assert.Equal(t, noon.Add(time.Minute), e.RetryAt)

	e.Moves = []workloads.Move{moveOf("b", -time.Minute)}
	wrong.Assignments[0].Pod.Ready = false
	e, ended = advance(e, wrong, noon.Add(7*time.Minute), testLimits)
	assert.Equal(t, []outcome{timedOut}, outcomes(ended))
	assert.Equal(t, int32(2), e.Failures)
	assert.Equal(t, noon.Add(9*time.Minute), e.RetryAt, "twice as long")

	e.Moves = []workloads.Move{moveOf("c", -9*time.Minute)}
	e, ended = advance(e, group(od, od, sp, sp, sp), noon.Add(10*time.Minute), testLimits)
	assert.Equal(t, []outcome{succeeded}, outcomes(ended))
	assert.Zero(t, e.Failures)
	assert.Zero(t, e.RetryAt)
}

// Four replicas move together, and a spot node is gone meanwhile: the workload rests as after one failure.
func TestMovesThatFailTogetherCountAsOne(t *testing.T) {
	old := workloads.Entry{Moves: []workloads.Move{
		moveOf("a", time.Minute), moveOf("b", time.Minute), moveOf("c", time.Minute), moveOf("d", time.Minute),
	}}
	e, ended := advance(old, group(od, od, od, od, od), noon, testLimits)
	require.Len(t, ended, 4)
	assert.Equal(t, int32(1), e.Failures)
	assert.Equal(t, noon.Add(time.Minute), e.RetryAt)

	e.Moves = []workloads.Move{moveOf("e", time.Second)} // it began before the others failed
	late := noon.Add(20 * time.Minute)
	e, ended = advance(e, group(od, od, od, od, od), late, testLimits)
	require.Len(t, ended, 1)
	assert.Equal(t, int32(1), e.Failures)
	assert.Equal(t, late.Add(time.Minute), e.RetryAt, "it rests again")

	e.Moves = []workloads.Move{moveOf("f", -10*time.Minute)} // the first pause was over, and the second had not begun
	e, ended = advance(e, group(od, od, od, od, od), late.Add(time.Minute), testLimits)
	require.Len(t, ended, 1)
	assert.Equal(t, int32(2), e.Failures, "it knew of the first failure")
}

// Two lanes of moves that end one after the other: each failure but the first of a wave counts.
func TestMovesThatFailOneAfterTheOtherRestLongerAndLonger(t *testing.T) {
	wrong := group(od, od, sp, sp, od)
	wrong.Assignments[0].Pod.Ready = false // every move ends by its timeout
	var e workloads.Entry
	evictions, now := 0, noon
	next := [2]time.Time{noon, noon.Add(150 * time.Second)}
	for ; now.Before(noon.Add(8 * time.Hour)); now = now.Add(10 * time.Second) {
		e, _ = advance(e, wrong, now, testLimits)
		for lane := range next {
			busy := slices.ContainsFunc(e.Moves, func(m workloads.Move) bool { return m.Name == fmt.Sprint(lane) })
			if !busy && !now.Before(next[lane]) && !now.Before(e.RetryAt) {
				m := moveOf(types.UID(fmt.Sprint(lane)), 0)
				m.Started = now
				e.Moves = append(slices.Clone(e.Moves), m)
				evictions++
			}
		}
	}
	assert.GreaterOrEqual(t, e.Failures, int32(6))
	assert.Less(t, evictions, 70, "in 8 hours with a pause of up to 10 minutes")
}

func TestObserveForgetsFailuresOnceTheMixIsThere(t *testing.T) {
	old := workloads.Entry{Failures: 3, RetryAt: noon.Add(time.Hour)}
	e, ended := advance(old, group(od, od, sp, sp, sp), noon, testLimits)
	assert.Empty(t, ended)
	assert.Zero(t, e.Failures)
	assert.Zero(t, e.RetryAt)
	old.Moves = []workloads.Move{moveOf("web-4", time.Minute)}
	e, _ = advance(old, group(od, od, sp, sp, sp), noon, testLimits)
	assert.Equal(t, int32(3), e.Failures, "not while the move is under way")
}

func TestObserveJudgesSeveralMovesEachByItself(t *testing.T) {
	// Two were evicted, and one of the two came back to the wrong type.
	old := workloads.Entry{Moves: []workloads.Move{moveOf("a", time.Minute), moveOf("b", time.Minute)}}
	e, ended := advance(old, group(od, od, sp, sp, sp, od), noon, testLimits)
	assert.ElementsMatch(t, []outcome{succeeded, failed}, outcomes(ended))
	assert.Equal(t, int32(1), e.Failures)
	assert.Len(t, old.Moves, 2, "the old entry stays as it is")

	// The replacement of the first came before the second was evicted.
	first, second := moveOf("a", time.Minute), moveOf("b", time.Minute)
	five := group(od, od, sp, sp, od)
	second.Before = &five.Assignments
	for _, tc := range []struct {
		group clusterstate.Group
		want  []outcome
	}{
		{group(od, od, sp, sp, od, sp), []outcome{failed, succeeded}},
		{group(od, od, sp, sp, sp, od), []outcome{succeeded, failed}},
	} {
		_, ended = advance(workloads.Entry{Moves: []workloads.Move{first, second}}, tc.group, noon, testLimits)
		assert.Equal(t, tc.want, outcomes(ended))
	}

	// One has no replacement yet, one has run out of time.
	g := group(od, od, od, sp, od)
	g.Replicas = 6
	e, ended = advance(workloads.Entry{Moves: []workloads.Move{moveOf("a", 10*time.Minute), moveOf("b", time.Minute)}}, g, noon, testLimits)
	assert.Equal(t, []outcome{timedOut}, outcomes(ended))
	assert.Equal(t, []workloads.Move{moveOf("b", time.Minute)}, e.Moves)
}

// A careful migration: each step begins while replicas of the one before are on their way.
func TestSmallStepsOfAMixBeginNoBackOff(t *testing.T) {
	e := workloads.Entry{Moves: []workloads.Move{movedTo(moveOf("a", time.Second), od, 3), movedTo(moveOf("b", time.Second), od, 4)}}
	for percent := int32(100); percent >= 0; percent -= 20 { // more are on the wrong side with each step
		g := withMix(group(sp, sp, sp, sp, od, od), split.New(percent, 0))
		after, ended := advance(e, g, noon, testLimits)
		assert.Equal(t, []outcome{succeeded, succeeded}, outcomes(ended), "at %d %%", percent)
		assert.Zero(t, after.Failures)
		assert.Zero(t, after.RetryAt)
	}
}

// A new leader recognizes the replicas that were there by their age.
func TestAMoveOfAnEarlierLeaderIsJudgedByItsReplacement(t *testing.T) {
	before := group(od, od, od, od)
	for i := range before.Assignments {
		before.Assignments[i].Pod.Created = noon.Add(time.Duration(i) * time.Second).UnixNano()
	}
	m := newMove(&before, rebalance.Verdict{Pod: before.Assignments[3].Pod, Target: sp}, noon.Add(time.Minute))
	assert.Equal(t, 3, m.Slot)
	now := noon.Add(2 * time.Minute)
	record := recordOf(&workloads.Entry{Group: before, Moves: []workloads.Move{m}}, now)
	text, err := rebalance.EncodeJournal([]rebalance.Record{record})
	require.NoError(t, err)
	read, err := rebalance.DecodeJournal(text, now, time.Hour)
	require.NoError(t, err)
	restored := recall(workloads.Entry{}, read[0], now)

	for on, want := range map[capacity.Type]outcome{sp: succeeded, od: failed} {
		g := group(od, od, sp, on) // one of the old ones is on spot meanwhile
		for i := range g.Assignments {
			g.Assignments[i].Pod.Created = before.Assignments[i].Pod.Created
		}
		g.Assignments[3].Pod.Created, g.Assignments[3].Pod.UID = now.UnixNano(), "new"
		_, ended := advance(restored, g, now, testLimits)
		assert.Equal(t, []outcome{want}, outcomes(ended))
	}
}

func TestObserveDropsHoldsThatAreOver(t *testing.T) {
	old := workloads.Entry{Held: map[string]workloads.Hold{"a": {Until: noon}, "b": {Until: noon.Add(time.Second), Verdict: rebalance.Verdict{Reason: rebalance.ReasonInsufficientCapacity}}}}
	e, _ := advance(old, group(od), noon, testLimits)
	assert.Equal(t, map[string]workloads.Hold{"b": old.Held["b"]}, e.Held)
	assert.Len(t, old.Held, 2)
	e, _ = advance(e, group(od), noon.Add(time.Minute), testLimits)
	assert.Nil(t, e.Held)
}

// An operator of a kind that no one knows replaces pods late: its group shrinks with each of them.
func TestAWorkloadWhoseOwnerTellsNoReplicasKeepsHowManyItHad(t *testing.T) {
	five := group(od, od, sp, sp, od)
	old := workloads.Entry{Moves: []workloads.Move{moveOf("gone", time.Minute)}, Had: 6}
	e, ended := advance(old, five, noon, testLimits)
	assert.Empty(t, ended, "one of six is missing")
	assert.Equal(t, 6, e.Had)

	e, ended = advance(e, five, noon.Add(time.Hour), testLimits)
	assert.Equal(t, []ending{{old.Moves[0], timedOut, 0, 5, 6}}, ended)
	assert.Equal(t, 6, e.Had, "it is remembered however late the replacement is")
	e, _ = advance(e, five, noon.Add(24*time.Hour), testLimits)
	assert.Equal(t, 6, e.Had)

	six := group(od, od, sp, sp, od, sp)
	six.Assignments[5].Pod.Ready = false
	e, _ = advance(e, six, noon.Add(24*time.Hour), testLimits)
	assert.Equal(t, 6, e.Had, "it is back, and not Ready")
	six.Assignments[5].Pod.Ready = true
	e, _ = advance(e, six, noon.Add(24*time.Hour), testLimits)
	assert.Zero(t, e.Had)
}

func TestAMoveOfAnOwnerThatEndedIsNoFailure(t *testing.T) {
	g := group(od, od, sp)
	g.Ended = true
	old := workloads.Entry{Moves: []workloads.Move{moveOf("a", time.Minute), moveOf("b", time.Hour)}, Had: 9}
	e, ended := advance(old, g, noon, testLimits)
	assert.Equal(t, []outcome{abandoned, abandoned}, outcomes(ended))
	assert.Zero(t, e.Failures)
	assert.Zero(t, e.Had)
	assert.Empty(t, e.Moves)
}

func TestEventsTellOfAFailedMoveWhatIsTrue(t *testing.T) {
	for want, end := range map[string]ending{
		"Pod web-4 was evicted, and 5m0s later 9 of 10 replicas are available. ":         {moveOf("web-4", time.Hour), timedOut, 0, 9, 10},
		"Pod web-4 was evicted to move to spot, and its replacement runs on on-demand. ": {moveOf("web-4", time.Minute), failed, od, 10, 10},
		"A placeholder was created, and was not scheduled in time. ":                     {outcome: notProvisioned},
	} {
		p := testController(t)
		p.ended(t.Context(), &workloads.Entry{Group: group(od), Failures: 1, RetryAt: noon.Add(time.Minute)}, end)
		assert.Equal(t, "Warning MoveFailed "+want+"Failed moves in a row: 1; the next is tried at 2026-06-01T12:01:00Z", <-p.Recorder.(*record.FakeRecorder).Events)
	}
	for _, o := range []outcome{succeeded, abandoned, notEvicted} {
		p := testController(t)
		p.ended(t.Context(), &workloads.Entry{Group: group(od)}, ending{outcome: o})
		assert.Empty(t, p.Recorder.(*record.FakeRecorder).Events, "%s is no failure", o)
	}
}

func TestObserveLosesNoMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var old workloads.Entry
		for range rapid.IntRange(0, 4).Draw(t, "moves") {
			old.Moves = append(old.Moves, moveOf(types.UID(fmt.Sprintf("web-%d", rapid.IntRange(0, 9).Draw(t, "uid"))), time.Duration(rapid.IntRange(0, 10).Draw(t, "minutes"))*time.Minute))
		}
		old.Failures = rapid.Int32Range(0, 40).Draw(t, "failures")
		g := group(rapid.SliceOfN(rapid.SampledFrom([]capacity.Type{sp, od, capacity.Unknown}), 0, 6).Draw(t, "on")...)
		g.Terminating = rapid.IntRange(0, 1).Draw(t, "terminating")
		e, ended := advance(old, g, noon, testLimits)
		require.Len(t, old.Moves, len(e.Moves)+len(ended))
		require.LessOrEqual(t, e.RetryAt.Sub(noon), testLimits.maxBackoff)
		require.Equal(t, len(g.WrongSide()) > 0, !e.WrongSince.IsZero())
	})
}

// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"fmt"
	"slices"
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

// group has a Ready pod on slot i on the i-th type, by a mix whose slots 0 and 1
// are on-demand and 2 to 4 spot.
func group(on ...capacity.Type) clusterstate.Group {
	m := split.New(70, 2)
	g := clusterstate.Group{
		Key: governing.GroupKey{Namespace: "shop", ID: "rs"}, Governing: &governing.Mix{Source: "capacitymix/web", Mix: m}, Replicas: len(on),
		Workload: clusterstate.Workload{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", Revision: "web-7d", UID: "web"},
	}
	for i, t := range on {
		name := fmt.Sprintf("web-%d", i)
		p := &clusterstate.Pod{Namespace: "shop", Name: name, UID: types.UID(name), Node: "node-" + name, Ready: true, Owner: ownerOf("rs")}
		g.Assignments = append(g.Assignments, clusterstate.Assignment{Pod: p, Assignment: split.Assignment{Wants: m.TypeOf(i), Pod: split.Pod{ID: name, Slot: i, On: t}}})
	}
	return g
}

// moveOf is a move to spot that began when there were web-0 to web-3: of group, web-4 may be the replacement.
func moveOf(uid types.UID, ago time.Duration) rebalance.Move {
	return rebalance.Move{UID: uid, Namespace: "shop", Name: string(uid), Started: noon.Add(-ago), Target: sp, Slot: 4, Before: fourBefore}
}

// movedTo is a move to another type, and to a slot.
func movedTo(m rebalance.Move, t capacity.Type, slot int) rebalance.Move {
	m.Target, m.Slot = t, slot
	return m
}

var fourBefore = func() *[]clusterstate.Assignment {
	g := group(od, od, sp, sp)
	return &g.Assignments
}()

// doubted is a move of which it is not known for so long whether the pod was evicted.
func doubted(m rebalance.Move, left time.Duration) rebalance.Move {
	m.DoubtUntil = noon.Add(left)
	return m
}

// outcomes are how some moves ended.
func outcomes(ended []rebalance.Ending) (list []rebalance.Outcome) {
	for _, end := range ended {
		list = append(list, end.Outcome)
	}
	return list
}

var testLimits = rebalance.Limits{Backoff: time.Minute, MaxBackoff: 10 * time.Minute, Timeout: 5 * time.Minute}

func withMix(g clusterstate.Group, m split.Mix) clusterstate.Group {
	g.Governing = &governing.Mix{Source: g.Governing.Source, Mix: m}
	return g
}

// reborn has another pod of the same name on a slot, as a StatefulSet makes it.
func reborn(g clusterstate.Group, slot int) clusterstate.Group {
	g.Assignments[slot].Pod.UID += " again"
	return g
}

// outcomeOf is how the only move of a workload ends.
func outcomeOf(m rebalance.Move, g clusterstate.Group) rebalance.Outcome {
	_, ended := rebalance.Advance(rebalance.Entry{Moves: []rebalance.Move{m}}, g, noon, testLimits)
	if len(ended) == 0 {
		return rebalance.Moving
	}
	return ended[0].Outcome
}

func TestJudge(t *testing.T) {
	change := func(g clusterstate.Group, of func(*clusterstate.Group)) clusterstate.Group {
		of(&g)
		return g
	}
	tests := map[string]struct {
		move  rebalance.Move
		group clusterstate.Group
		want  rebalance.Outcome
	}{
		"its replacement is on its side":                  {moveOf("gone", time.Minute), group(od, od, sp, sp, sp), rebalance.Succeeded},
		"its replacement is on the wrong side":            {moveOf("gone", time.Minute), group(od, od, sp, sp, od), rebalance.Failed},
		"others came to be on the wrong side meanwhile":   {moveOf("gone", time.Minute), group(od, od, od, od, sp), rebalance.Succeeded},
		"its slot has another type by a changed mix":      {moveOf("gone", time.Minute), withMix(group(od, od, sp, sp, od), split.New(0, 0)), rebalance.Succeeded},
		"it was moved to the type of a former mix":        {moveOf("gone", time.Minute), withMix(group(od, od, sp, sp, sp), split.New(0, 0)), rebalance.Succeeded},
		"one of two new replicas is on its side":          {moveOf("gone", time.Minute), group(od, od, sp, sp, sp, od), rebalance.Succeeded},
		"a replica with its name tells":                   {moveOf("web-5", time.Minute), reborn(group(od, od, sp, sp, sp, od), 5), rebalance.Failed},
		"another replica with its name tells":             {moveOf("web-4", time.Minute), reborn(group(od, od, sp, sp, od, sp), 4), rebalance.Failed},
		"an earlier leader recorded no type":              {movedTo(moveOf("gone", time.Minute), capacity.Unknown, 0), group(od, od, sp, sp, sp), rebalance.Succeeded},
		"the pod is still there":                          {moveOf("web-4", time.Minute), group(od, od, sp, sp, sp), rebalance.Moving},
		"a replacement is not there yet":                  {moveOf("gone", time.Minute), change(group(od, od, sp, sp), func(g *clusterstate.Group) { g.Replicas = 5 }), rebalance.Moving},
		"the old pod, or one before it, still terminates": {moveOf("gone", time.Hour), change(group(od, od, sp, sp, sp), func(g *clusterstate.Group) { g.Terminating = 2 }), rebalance.Succeeded},
		"the owner ended":                                 {moveOf("gone", time.Minute), change(group(od, od, sp, sp), func(g *clusterstate.Group) { g.Replicas, g.Ended = 5, true }), rebalance.Abandoned},
		"it may not have been evicted, and lives":         {doubted(moveOf("web-4", time.Minute), 0), group(od, od, sp, sp, sp), rebalance.NotEvicted},
		"it may not have been evicted, and still lives":   {doubted(moveOf("web-4", time.Minute), 1), group(od, od, sp, sp, sp), rebalance.Moving},
		"it may not have been evicted, and is gone":       {doubted(moveOf("gone", time.Minute), 0), group(od, od, sp, sp, sp), rebalance.Succeeded},
		"the replacement is pending":                      {moveOf("gone", time.Minute), change(group(od, od, sp, sp, sp), func(g *clusterstate.Group) { g.Assignments[4].Place = clusterstate.Pending }), rebalance.Moving},
		"the replacement's node departs":                  {moveOf("gone", time.Minute), change(group(od, od, sp, sp, sp), func(g *clusterstate.Group) { g.Assignments[4].Place = clusterstate.Departing }), rebalance.Moving},
		"the replacement is not Ready, just in time":      {moveOf("gone", 5*time.Minute-1), change(group(od, od, sp, sp, sp), func(g *clusterstate.Group) { g.Assignments[4].Pod.Ready = false }), rebalance.Moving},
		"the replacement is not Ready, past the time":     {moveOf("gone", 5*time.Minute), change(group(od, od, sp, sp, sp), func(g *clusterstate.Group) { g.Assignments[4].Pod.Ready = false }), rebalance.TimedOut},
		"it is complete past the time":                    {moveOf("gone", time.Hour), group(od, od, sp, sp, sp), rebalance.Succeeded},
		"a surplus pod of a surge does not keep it open":  {moveOf("gone", time.Minute), change(group(od, od, sp, sp, sp), func(g *clusterstate.Group) { g.Replicas = 4 }), rebalance.Succeeded},
		"the workload was scaled to nothing in the midst": {moveOf("gone", time.Minute), clusterstate.Group{Governing: &governing.Mix{Mix: split.New(70, 2)}}, rebalance.Succeeded},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, outcomeOf(tc.move, tc.group))
		})
	}
}

// A rollout with minReadySeconds waits for each replica to be available: so does a move.
func TestAMoveEndsWhenItsReplacementIsAvailable(t *testing.T) {
	g := group(od, od, sp, sp, sp)
	g.MinReady = 10 * time.Minute
	g.Assignments[4].Pod.ReadySince = noon.Unix()
	old := rebalance.Entry{Moves: []rebalance.Move{moveOf("gone", time.Second)}}
	for after, want := range map[time.Duration][]rebalance.Outcome{
		0: nil, 10*time.Minute - 1: nil, // longer than the time for a move, in which it became Ready
		10 * time.Minute: {rebalance.Succeeded},
	} {
		_, ended := rebalance.Advance(old, g, noon.Add(after), testLimits)
		assert.Equal(t, want, outcomes(ended), "%s after it became Ready", after)
	}
	g.Assignments[4].Pod.Ready = false
	_, ended := rebalance.Advance(old, g, noon.Add(15*time.Minute), testLimits)
	assert.Equal(t, []rebalance.Outcome{rebalance.TimedOut}, outcomes(ended), "it did not become Ready in the time for a move")
}

func TestObserveKeepsSinceWhenAWorkloadIsOutOfItsMix(t *testing.T) {
	e, _ := rebalance.Advance(rebalance.Entry{}, group(od, od, sp, sp, od), noon, testLimits)
	assert.Equal(t, noon, e.WrongSince)
	e, _ = rebalance.Advance(e, group(od, od, sp, sp, od), noon.Add(time.Minute), testLimits)
	assert.Equal(t, noon, e.WrongSince, "not again and again")
	rolling := group(od, od, sp, sp, od)
	rolling.Rollout.Rolling = true
	e, _ = rebalance.Advance(e, rolling, noon.Add(2*time.Minute), testLimits)
	assert.Equal(t, noon.Add(2*time.Minute), e.RollingSince)
	e, _ = rebalance.Advance(e, group(od, od, sp, sp, sp), noon.Add(3*time.Minute), testLimits)
	assert.Zero(t, e.WrongSince)
	assert.Zero(t, e.RollingSince)
}

func TestObserveCountsFailuresAndBacksOff(t *testing.T) {
	e := rebalance.Entry{Moves: []rebalance.Move{moveOf("a", time.Minute)}}
	wrong := group(od, od, sp, sp, od)
	e, ended := rebalance.Advance(e, wrong, noon, testLimits)
	assert.Equal(t, []rebalance.Outcome{rebalance.Failed}, outcomes(ended))
	assert.Empty(t, e.Moves)
	assert.Equal(t, int32(1), e.Failures)
	assert.Equal(t, noon.Add(time.Minute), e.RetryAt)

	e.Moves = []rebalance.Move{moveOf("b", -time.Minute)}
	wrong.Assignments[0].Pod.Ready = false
	e, ended = rebalance.Advance(e, wrong, noon.Add(7*time.Minute), testLimits)
	assert.Equal(t, []rebalance.Outcome{rebalance.TimedOut}, outcomes(ended))
	assert.Equal(t, int32(2), e.Failures)
	assert.Equal(t, noon.Add(9*time.Minute), e.RetryAt, "twice as long")

	e.Moves = []rebalance.Move{moveOf("c", -9*time.Minute)}
	e, ended = rebalance.Advance(e, group(od, od, sp, sp, sp), noon.Add(10*time.Minute), testLimits)
	assert.Equal(t, []rebalance.Outcome{rebalance.Succeeded}, outcomes(ended))
	assert.Zero(t, e.Failures)
	assert.Zero(t, e.RetryAt)
}

// Four replicas move together, and a spot node is gone meanwhile: the workload rests as after one failure.
func TestMovesThatFailTogetherCountAsOne(t *testing.T) {
	old := rebalance.Entry{Moves: []rebalance.Move{
		moveOf("a", time.Minute), moveOf("b", time.Minute), moveOf("c", time.Minute), moveOf("d", time.Minute),
	}}
	e, ended := rebalance.Advance(old, group(od, od, od, od, od), noon, testLimits)
	require.Len(t, ended, 4)
	assert.Equal(t, int32(1), e.Failures)
	assert.Equal(t, noon.Add(time.Minute), e.RetryAt)

	e.Moves = []rebalance.Move{moveOf("e", time.Second)} // it began before the others failed
	late := noon.Add(20 * time.Minute)
	e, ended = rebalance.Advance(e, group(od, od, od, od, od), late, testLimits)
	require.Len(t, ended, 1)
	assert.Equal(t, int32(1), e.Failures)
	assert.Equal(t, late.Add(time.Minute), e.RetryAt, "it rests again")

	e.Moves = []rebalance.Move{moveOf("f", -10*time.Minute)} // the first pause was over, and the second had not begun
	e, ended = rebalance.Advance(e, group(od, od, od, od, od), late.Add(time.Minute), testLimits)
	require.Len(t, ended, 1)
	assert.Equal(t, int32(2), e.Failures, "it began after the first failure")
}

// Two lanes of moves that end one after the other: each failure but the first of a wave counts.
func TestMovesThatFailOneAfterTheOtherRestLongerAndLonger(t *testing.T) {
	wrong := group(od, od, sp, sp, od)
	wrong.Assignments[0].Pod.Ready = false // every move ends by its timeout
	var e rebalance.Entry
	evictions, now := 0, noon
	next := [2]time.Time{noon, noon.Add(150 * time.Second)}
	for ; now.Before(noon.Add(8 * time.Hour)); now = now.Add(10 * time.Second) {
		e, _ = rebalance.Advance(e, wrong, now, testLimits)
		for lane := range next {
			busy := slices.ContainsFunc(e.Moves, func(m rebalance.Move) bool { return m.Name == fmt.Sprint(lane) })
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
	old := rebalance.Entry{Failures: 3, RetryAt: noon.Add(time.Hour)}
	e, ended := rebalance.Advance(old, group(od, od, sp, sp, sp), noon, testLimits)
	assert.Empty(t, ended)
	assert.Zero(t, e.Failures)
	assert.Zero(t, e.RetryAt)
	old.Moves = []rebalance.Move{moveOf("web-4", time.Minute)}
	e, _ = rebalance.Advance(old, group(od, od, sp, sp, sp), noon, testLimits)
	assert.Equal(t, int32(3), e.Failures, "not while the move is under way")
}

func TestObserveJudgesSeveralMovesEachByItself(t *testing.T) {
	// Two were evicted, and one of the two came back to the wrong type.
	old := rebalance.Entry{Moves: []rebalance.Move{moveOf("a", time.Minute), moveOf("b", time.Minute)}}
	e, ended := rebalance.Advance(old, group(od, od, sp, sp, sp, od), noon, testLimits)
	assert.ElementsMatch(t, []rebalance.Outcome{rebalance.Succeeded, rebalance.Failed}, outcomes(ended))
	assert.Equal(t, int32(1), e.Failures)
	assert.Len(t, old.Moves, 2, "the old entry stays as it is")

	// The replacement of the first came before the second was evicted.
	first, second := moveOf("a", time.Minute), moveOf("b", time.Minute)
	five := group(od, od, sp, sp, od)
	second.Before = &five.Assignments
	for _, tc := range []struct {
		group clusterstate.Group
		want  []rebalance.Outcome
	}{
		{group(od, od, sp, sp, od, sp), []rebalance.Outcome{rebalance.Failed, rebalance.Succeeded}},
		{group(od, od, sp, sp, sp, od), []rebalance.Outcome{rebalance.Succeeded, rebalance.Failed}},
	} {
		_, ended = rebalance.Advance(rebalance.Entry{Moves: []rebalance.Move{first, second}}, tc.group, noon, testLimits)
		assert.Equal(t, tc.want, outcomes(ended))
	}

	// One has no replacement yet, one has run out of time.
	g := group(od, od, od, sp, od)
	g.Replicas = 6
	e, ended = rebalance.Advance(rebalance.Entry{Moves: []rebalance.Move{moveOf("a", 10*time.Minute), moveOf("b", time.Minute)}}, g, noon, testLimits)
	assert.Equal(t, []rebalance.Outcome{rebalance.TimedOut}, outcomes(ended))
	assert.Equal(t, []rebalance.Move{moveOf("b", time.Minute)}, e.Moves)
}

// A careful migration: each step begins while replicas of the one before are on their way.
func TestSmallStepsOfAMixBeginNoBackOff(t *testing.T) {
	e := rebalance.Entry{Moves: []rebalance.Move{movedTo(moveOf("a", time.Second), od, 3), movedTo(moveOf("b", time.Second), od, 4)}}
	for percent := int32(100); percent >= 0; percent -= 20 { // more are on the wrong side with each step
		g := withMix(group(sp, sp, sp, sp, od, od), split.New(percent, 0))
		after, ended := rebalance.Advance(e, g, noon, testLimits)
		assert.Equal(t, []rebalance.Outcome{rebalance.Succeeded, rebalance.Succeeded}, outcomes(ended), "at %d %%", percent)
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
	m := rebalance.NewMove(&before, rebalance.Verdict{Pod: before.Assignments[3].Pod, Target: sp}, noon.Add(time.Minute))
	assert.Equal(t, 3, m.Slot)
	now := noon.Add(2 * time.Minute)
	record := rebalance.RecordOf(&rebalance.Entry{Group: before, Moves: []rebalance.Move{m}}, now)
	text, err := rebalance.EncodeJournal([]rebalance.Record{record})
	require.NoError(t, err)
	read, err := rebalance.DecodeJournal(text, now, time.Hour)
	require.NoError(t, err)
	restored := rebalance.Recall(rebalance.Entry{}, read[0], now)

	for on, want := range map[capacity.Type]rebalance.Outcome{sp: rebalance.Succeeded, od: rebalance.Failed} {
		g := group(od, od, sp, on) // one of the old ones is on spot meanwhile
		for i := range g.Assignments {
			g.Assignments[i].Pod.Created = before.Assignments[i].Pod.Created
		}
		g.Assignments[3].Pod.Created, g.Assignments[3].Pod.UID = now.UnixNano(), "new"
		_, ended := rebalance.Advance(restored, g, now, testLimits)
		assert.Equal(t, []rebalance.Outcome{want}, outcomes(ended))
	}
}

func TestObserveDropsHoldsThatAreOver(t *testing.T) {
	old := rebalance.Entry{Held: map[string]rebalance.Hold{"a": {Until: noon}, "b": {Until: noon.Add(time.Second), Verdict: rebalance.Verdict{Reason: rebalance.ReasonInsufficientCapacity}}}}
	e, _ := rebalance.Advance(old, group(od), noon, testLimits)
	assert.Equal(t, map[string]rebalance.Hold{"b": old.Held["b"]}, e.Held)
	assert.Len(t, old.Held, 2)
	e, _ = rebalance.Advance(e, group(od), noon.Add(time.Minute), testLimits)
	assert.Nil(t, e.Held)
}

// An operator of a custom kind replaces pods late: its group shrinks with each of them.
func TestAWorkloadWithoutACountKeepsItsFormerSize(t *testing.T) {
	five := group(od, od, sp, sp, od)
	old := rebalance.Entry{Moves: []rebalance.Move{moveOf("gone", time.Minute)}, Had: 6}
	e, ended := rebalance.Advance(old, five, noon, testLimits)
	assert.Empty(t, ended, "one of six is missing")
	assert.Equal(t, 6, e.Had)

	e, ended = rebalance.Advance(e, five, noon.Add(time.Hour), testLimits)
	assert.Equal(t, []rebalance.Ending{{Move: old.Moves[0], Outcome: rebalance.TimedOut, Available: 5, Want: 6}}, ended)
	assert.Equal(t, 6, e.Had, "it is remembered however late the replacement is")
	e, _ = rebalance.Advance(e, five, noon.Add(24*time.Hour), testLimits)
	assert.Equal(t, 6, e.Had)

	six := group(od, od, sp, sp, od, sp)
	six.Assignments[5].Pod.Ready = false
	e, _ = rebalance.Advance(e, six, noon.Add(24*time.Hour), testLimits)
	assert.Equal(t, 6, e.Had, "it is back, and not Ready")
	six.Assignments[5].Pod.Ready = true
	e, _ = rebalance.Advance(e, six, noon.Add(24*time.Hour), testLimits)
	assert.Zero(t, e.Had)
}

func TestAMoveOfAnOwnerThatEndedIsNoFailure(t *testing.T) {
	g := group(od, od, sp)
	g.Ended = true
	old := rebalance.Entry{Moves: []rebalance.Move{moveOf("a", time.Minute), moveOf("b", time.Hour)}, Had: 9}
	e, ended := rebalance.Advance(old, g, noon, testLimits)
	assert.Equal(t, []rebalance.Outcome{rebalance.Abandoned, rebalance.Abandoned}, outcomes(ended))
	assert.Zero(t, e.Failures)
	assert.Zero(t, e.Had)
	assert.Empty(t, e.Moves)
}

func TestObserveLosesNoMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var old rebalance.Entry
		for range rapid.IntRange(0, 4).Draw(t, "moves") {
			old.Moves = append(old.Moves, moveOf(types.UID(fmt.Sprintf("web-%d", rapid.IntRange(0, 9).Draw(t, "uid"))), time.Duration(rapid.IntRange(0, 10).Draw(t, "minutes"))*time.Minute))
		}
		old.Failures = rapid.Int32Range(0, 40).Draw(t, "failures")
		g := group(rapid.SliceOfN(rapid.SampledFrom([]capacity.Type{sp, od, capacity.Unknown}), 0, 6).Draw(t, "on")...)
		g.Terminating = rapid.IntRange(0, 1).Draw(t, "terminating")
		e, ended := rebalance.Advance(old, g, noon, testLimits)
		require.Len(t, old.Moves, len(e.Moves)+len(ended))
		require.LessOrEqual(t, e.RetryAt.Sub(noon), testLimits.MaxBackoff)
		require.Equal(t, len(g.WrongSide()) > 0, !e.WrongSince.IsZero())
	})
}

// SPDX-License-Identifier: Apache-2.0

package stages

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

// The stages as the scheduling loop runs them: every attempt fails.
func TestStagesOfAPodThatFindsNoCapacity(t *testing.T) {
	const (
		spot, onDemand = capacity.Spot, capacity.OnDemand
		noSpotSince    = "spot has had no capacity for this pod since 1970-01-01T00:16:40Z"
	)
	now := time.Unix(1000, 0)
	mayBorrow := &governing.Mix{BorrowOnDemand: true}
	wait := &governing.Mix{BorrowOnDemand: true, SpotWait: 10 * time.Second}
	mayBorrowSpot := &governing.Mix{BorrowSpot: true, SpotWait: time.Hour}
	never := &governing.Mix{}
	at := func(s ledger.Stage) ledger.Attempt { return ledger.Attempt{Stage: s} }
	since := func(s ledger.Stage) ledger.Attempt { return ledger.Attempt{Stage: s, NoCapacitySince: now} }
	preemptedAfter := func(after time.Duration) ledger.Attempt {
		return ledger.Attempt{Stage: ledger.StageType, NoCapacitySince: now, PreemptedAt: now.Add(after)}
	}
	preempted := preemptedAfter(0)
	promised := ledger.Attempt{Stage: ledger.StagePreempt, NoCapacitySince: now, PreemptedAt: now}
	ahead := ledger.Attempt{Stage: ledger.StageAhead, NoCapacitySince: now, Below: 10}
	try := func(next ledger.Attempt, message string) Next {
		return Next{Attempt: next, Retry: true, Message: message}
	}
	preempt := Next{Attempt: preempted, Preempt: true}
	growing := func(f *Failure) { f.GrowingTo = 10 }
	nominated := func(f *Failure) { f.Nominated = true }
	terminating := func(f *Failure) { f.Nominated, f.Terminating = true, true }
	tests := map[string]struct {
		attempt   ledger.Attempt
		wants     capacity.Type
		governing *governing.Mix
		after     time.Duration // how long spot has had no capacity
		more      func(*Failure)
		want      Next
	}{
		"a sample without room is followed by all nodes": {
			at(ledger.StageSample), spot, mayBorrow, 0, nil, try(at(ledger.StageType), "trying all spot nodes next"),
		},
		"all nodes without room are followed by borrowing": {
			at(ledger.StageType), spot, mayBorrow, 0, nil, try(since(ledger.StageBorrow), "trying on-demand nodes next"),
		},
		"not before the wait is over": {
			since(ledger.StageType), spot, wait, 9 * time.Second, nil, Next{
				Attempt: since(ledger.StageType), RetryAt: now.Add(10 * time.Second),
				Message: noSpotSince + ", on-demand is allowed from 1970-01-01T00:16:50Z",
			},
		},
		"but then": {
			since(ledger.StageType), spot, wait, 10 * time.Second, nil, try(since(ledger.StageBorrow), "trying on-demand nodes next"),
		},
		"a mix that does not let it borrow leaves it to preemption": {at(ledger.StageType), spot, never, 0, nil, preempt},
		"on-demand does not borrow from spot unless told":           {at(ledger.StageType), onDemand, mayBorrow, 0, nil, preempt},
		"on-demand borrows from spot at once when told, spotWaitSeconds or not": {
			at(ledger.StageType), onDemand, mayBorrowSpot, 0, nil, try(since(ledger.StageBorrow), "trying spot nodes next"),
		},
		"a revision that still grows takes a slot of the other type ahead of its turn": {
			at(ledger.StageType), onDemand, never, 0, growing, try(ahead, "the rollout is not complete: trying a later slot that is spot next"),
		},
		"and where there is no later slot borrows for its own": {
			attempt:   ledger.Attempt{Stage: ledger.StageType, NoCapacitySince: now, Below: 10},
			wants:     spot,
			governing: mayBorrow,
			more:      growing,
			want:      try(since(ledger.StageBorrow), "trying on-demand nodes next"),
		},
		"or leaves it to preemption": {
			attempt:   ledger.Attempt{Stage: ledger.StageType, NoCapacitySince: now, Below: 10},
			wants:     onDemand,
			governing: never,
			more:      growing,
			want:      Next{Attempt: preempted, Preempt: true, RetryAt: now.Add(2 * time.Second)},
		},
		"and where that has no room waits for its own": {since(ledger.StageAhead), spot, never, 0, nil, try(since(ledger.StagePreempt), "")},
		"which is tried again soon": {
			since(ledger.StagePreempt), onDemand, never, 0, growing, Next{Attempt: preempted, Preempt: true, RetryAt: now.Add(2 * time.Second)},
		},
		"or borrows for its own": {
			since(ledger.StageAhead), onDemand, mayBorrow, 0, nil, try(since(ledger.StageBorrow), "trying on-demand nodes next"),
		},
		"no room to borrow either": {since(ledger.StageBorrow), spot, mayBorrow, 0, nil, preempt},
		"a pod that waited says since when it does": {
			since(ledger.StageBorrow), spot, wait, time.Minute, nil, Next{Attempt: preemptedAfter(time.Minute), Preempt: true, Message: noSpotSince},
		},
		"preemption has no second turn before its victims are seen to terminate": {
			promised, spot, mayBorrow, victimsTerminateWithin - 1, nominated, Next{
				Attempt: preempted, RetryAt: now.Add(victimsTerminateWithin), Message: "preemption frees capacity on the nominated node",
			},
		},
		"of which a pod that waited says since when it does": {
			promised, spot, wait, time.Second, nominated, Next{
				Attempt: preempted, RetryAt: now.Add(victimsTerminateWithin),
				Message: "preemption frees capacity on the nominated node, " + noSpotSince,
			},
		},
		"a pod without victims is tried like every other one": {
			promised, spot, mayBorrow, victimsTerminateWithin, nominated, try(since(ledger.StageType), "trying all spot nodes next"),
		},
		"a pod is nominated for as long as its victims terminate": {
			promised, spot, mayBorrow, time.Hour, terminating, Next{Attempt: preemptedAfter(time.Hour), Preempt: true},
		},
		"preemption comes last, and the next attempt begins with all nodes": {since(ledger.StagePreempt), spot, mayBorrow, 0, nil, preempt},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := Failure{Attempt: tc.attempt, SlotType: tc.wants, NoCapacitySince: now, Now: now.Add(tc.after)}
			if tc.more != nil {
				tc.more(&f)
			}
			assert.Equal(t, tc.want, After(f, tc.governing))
		})
	}
}

// The condition of a pod is written by whoever may write its status.
func FuzzNoCapacitySince(f *testing.F) {
	f.Add("0/3 nodes are available. spot" + HadNoCapacity + "2026-01-01T00:00:00Z, on-demand is allowed")
	f.Fuzz(func(t *testing.T, message string) {
		since, found := NoCapacitySince(message, capacity.Spot)
		if found && !strings.Contains(message, since.Format("2006-01-02T15:04")) {
			t.Errorf("%q holds no %s", message, fmt.Sprint(since))
		}
	})
}

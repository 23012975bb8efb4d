// SPDX-License-Identifier: Apache-2.0

package stages

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

// The stages as the scheduling loop runs them: every attempt fails.
func TestStagesOfAPodThatFindsNoCapacity(t *testing.T) {
	now := time.Unix(1000, 0)
	mayBorrow := &policy.Policy{BorrowOnDemand: true}
	wait := &policy.Policy{BorrowOnDemand: true, SpotWait: 10 * time.Second}
	never := &policy.Policy{}
	at := func(s ledger.Stage) ledger.Attempt { return ledger.Attempt{Stage: s} }
	since := func(s ledger.Stage) ledger.Attempt { return ledger.Attempt{Stage: s, NoCapacitySince: now} }
	preemptedAt := func(at time.Time) ledger.Attempt {
		return ledger.Attempt{Stage: ledger.StageType, NoCapacitySince: now, PreemptedAt: at}
	}
	preempted := preemptedAt(now)
	promised := ledger.Attempt{Stage: ledger.StagePreempt, NoCapacitySince: now, PreemptedAt: now}
	tests := map[string]struct {
		attempt   ledger.Attempt
		wants     capacity.Type
		policy    *policy.Policy
		now       time.Time
		want      Next
		growingTo int

		nominated, terminating bool
	}{
		"a sample without room is followed by all nodes": {
			attempt: at(ledger.StageSample), wants: capacity.Spot, policy: mayBorrow, now: now,
			want: Next{Attempt: at(ledger.StageType), Retry: true, Message: "trying all spot nodes next"},
		},
		"all nodes without room are followed by borrowing": {
			attempt: at(ledger.StageType), wants: capacity.Spot, policy: mayBorrow, now: now,
			want: Next{Attempt: since(ledger.StageBorrow), Retry: true, Message: "trying on-demand nodes next"},
		},
		"not before the wait is over": {
			attempt: since(ledger.StageType), wants: capacity.Spot, policy: wait, now: now.Add(9 * time.Second),
			want: Next{Attempt: since(ledger.StageType), RetryAt: now.Add(10 * time.Second), Message: "spot has had no capacity for this pod since 1970-01-01T00:16:40Z, on-demand is allowed from 1970-01-01T00:16:50Z"},
		},
		"but then": {
			attempt: since(ledger.StageType), wants: capacity.Spot, policy: wait, now: now.Add(10 * time.Second),
			want: Next{Attempt: since(ledger.StageBorrow), Retry: true, Message: "trying on-demand nodes next"},
		},
		"a mix that does not let it borrow leaves it to preemption": {
			attempt: at(ledger.StageType), wants: capacity.Spot, policy: never, now: now,
			want: Next{Attempt: preempted, Preempt: true},
		},
		"on-demand does not borrow from spot unless told": {
			attempt: at(ledger.StageType), wants: capacity.OnDemand, policy: mayBorrow, now: now,
			want: Next{Attempt: preempted, Preempt: true},
		},
		"on-demand borrows from spot at once when told, spotWaitSeconds or not": {
			attempt: at(ledger.StageType), wants: capacity.OnDemand, policy: &policy.Policy{BorrowSpot: true, SpotWait: time.Hour}, now: now,
			want: Next{Attempt: since(ledger.StageBorrow), Retry: true, Message: "trying spot nodes next"},
		},
		"a revision that still grows takes a slot of the other type ahead of its turn": {
			attempt: at(ledger.StageType), wants: capacity.OnDemand, policy: never, now: now, growingTo: 10,
			want: Next{
				Attempt: ledger.Attempt{Stage: ledger.StageAhead, NoCapacitySince: now, Below: 10}, Retry: true,
				Message: "the rollout is not complete: trying a later slot that is spot next",
			},
		},
		"and where that has no room waits for its own": {
			attempt: since(ledger.StageAhead), wants: capacity.Spot, policy: never, now: now,
			want: Next{Attempt: since(ledger.StagePreempt), Retry: true},
		},
		"which is tried again soon": {
			attempt: since(ledger.StagePreempt), wants: capacity.OnDemand, policy: never, now: now, growingTo: 10,
			want: Next{Attempt: preempted, Preempt: true, RetryAt: now.Add(2 * time.Second)},
		},
		"or borrows for its own": {
			attempt: since(ledger.StageAhead), wants: capacity.OnDemand, policy: mayBorrow, now: now,
			want: Next{Attempt: since(ledger.StageBorrow), Retry: true, Message: "trying on-demand nodes next"},
		},
		"no room to borrow either": {
			attempt: since(ledger.StageBorrow), wants: capacity.Spot, policy: mayBorrow, now: now,
			want: Next{Attempt: preempted, Preempt: true},
		},
		"a pod that waited says since when it does": {
			attempt: since(ledger.StageBorrow), wants: capacity.Spot, policy: wait, now: now.Add(time.Minute),
			want: Next{Attempt: preemptedAt(now.Add(time.Minute)), Preempt: true, Message: "spot has had no capacity for this pod since 1970-01-01T00:16:40Z"},
		},
		"preemption has no second turn before its victims are seen to terminate": {
			attempt: promised, wants: capacity.Spot, policy: mayBorrow, now: now.Add(victimsTerminateWithin - 1), nominated: true,
			want: Next{Attempt: preempted, RetryAt: now.Add(victimsTerminateWithin), Message: "preemption frees capacity on the nominated node"},
		},
		"of which a pod that waited says since when it does": {
			attempt: promised, wants: capacity.Spot, policy: wait, now: now.Add(time.Second), nominated: true,
			want: Next{
				Attempt: preempted, RetryAt: now.Add(victimsTerminateWithin),
				Message: "preemption frees capacity on the nominated node, spot has had no capacity for this pod since 1970-01-01T00:16:40Z",
			},
		},
		"a pod without victims is tried like every other one": {
			attempt: promised, wants: capacity.Spot, policy: mayBorrow, now: now.Add(victimsTerminateWithin), nominated: true,
			want: Next{Attempt: since(ledger.StageType), Retry: true, Message: "trying all spot nodes next"},
		},
		"a pod is nominated for as long as its victims terminate": {
			attempt: promised, wants: capacity.Spot, policy: mayBorrow, now: now.Add(time.Hour), nominated: true, terminating: true,
			want: Next{Attempt: preemptedAt(now.Add(time.Hour)), Preempt: true},
		},
		"preemption comes last, and the next attempt begins with all nodes": {
			attempt: since(ledger.StagePreempt), wants: capacity.Spot, policy: mayBorrow, now: now,
			want: Next{Attempt: preempted, Preempt: true},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			noCapacitySince := tc.attempt.NoCapacitySince
			if noCapacitySince.IsZero() {
				noCapacitySince = tc.now
			}
			got := After(Failure{
				Attempt:         tc.attempt,
				SlotType:        tc.wants,
				NoCapacitySince: noCapacitySince,
				Now:             tc.now,
				GrowingTo:       tc.growingTo,
				Nominated:       tc.nominated,
				Terminating:     tc.terminating,
			}, tc.policy)
			assert.Equal(t, tc.want, got)
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

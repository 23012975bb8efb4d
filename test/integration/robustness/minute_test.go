// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/robustness/history"
	"berth.dev/berth/test/robustness/network"
	"berth.dev/berth/test/robustness/plan"
	"berth.dev/berth/test/testenv"
)

// recovers bounds the time until pods are placed after a fault of a minute: client-go tries a watch again after up to a minute, in the
// controller manager, which creates the pods, and in the scheduler.
const recovers = 2*time.Minute + 10*time.Second

// placesAgain deletes pods, and waits until the scheduler has placed others. It has run all the time.
func (r *runner) placesAgain() {
	r.T.Helper()
	began := time.Now()
	runs, log := testenv.Runs(r.scheduler)
	require.True(r.T, runs, "the scheduler ended: %s", log)
	name := r.order[0]
	r.deletePods(&plan.Step{Workload: name, Count: 2})
	r.Within(recovers, "pods are placed", func() (bool, string) {
		bound := len(testenv.Where(r.Live(name), testenv.Bound))
		return bound == plan.MaxReplicas, fmt.Sprint(bound)
	})
	r.T.Logf("pods were placed %s after the fault", time.Since(began))
}

// The API server is away for a minute while moves are under way.
func TestAnOutageOfAMinuteWithMovesInHand(t *testing.T) {
	r := begunWith(t, withoutStatefulSets(split.New(60, 1)))
	before := len(r.moved())
	r.remixAll(split.New(20, 1))
	r.Reaches("moves are in hand", before+1, func() int { return len(r.moved()) })
	r.step(&plan.Step{Kind: plan.Outage, Target: plan.APIServer, For: time.Minute})
	r.placesAgain()
	r.judged()
}

// The connections of the scheduler and of the leading controller are half-open for a minute, while pods are deleted. The mixes stay: the
// watches of pods and of mixes begin again one after the other, and a pod is placed by the mix that the scheduler sees.
func TestConnectionsThatAreHalfOpenForAMinute(t *testing.T) {
	r := begunWith(t, withoutStatefulSets(split.New(60, 1)))
	for _, name := range []string{string(history.Scheduler), r.leader()} {
		r.networks[name].Set(network.Fault{Frozen: true})
	}
	began := time.Now()
	for _, name := range r.order {
		r.deletePods(&plan.Step{Workload: name, Count: 1})
	}
	r.wait(time.Until(began.Add(time.Minute)))
	for _, p := range r.networks {
		p.Set(network.Fault{})
	}
	r.placesAgain()
	r.judged()
}

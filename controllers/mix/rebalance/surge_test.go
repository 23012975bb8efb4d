// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/client-go/tools/record"

	"berth.dev/berth/internal/mix/rebalance"
)

// A policy that forbids the patch leaves the replica where it is.
func TestNoReleaseIsReportedThatTheAPIServerForbids(t *testing.T) {
	p, _ := strayController(t, 1)
	g := p.State.Group(strayKey)
	pod := g.Assignments[0].Pod
	for _, step := range []rebalance.Step{rebalance.StepSurge, rebalance.StepFlee} {
		for forbidden, want := range map[string]int{"": 1, "the API server does not allow to release it: no": 0} {
			w := &evaluation{Evaluation: rebalance.Begin(rebalance.Entry{}, rebalance.Entry{}, *g, nil, false, noon, rebalance.Limits{Timeout: time.Minute})}
			a := rebalance.Action{Step: step, Of: w.Entry, Verdict: rebalance.Verdict{Pod: pod}, Surge: true, Proof: &rebalance.Proof{Node: "spot"}}
			p.out.record(t.Context(), w, a, rebalance.Result{Unreleasable: forbidden})
			assert.Len(t, eventsOf(p), want, "%s %q", step, forbidden)
		}
	}
}

// eventsOf takes the events that were recorded.
func eventsOf(p *fixture) (events []string) {
	recorded := p.Recorder.(*record.FakeRecorder).Events
	for len(recorded) > 0 {
		events = append(events, <-recorded)
	}
	return events
}

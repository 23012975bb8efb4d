// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
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
		Key: governing.GroupKey{Namespace: "shop", ID: "rs"}, Governing: &governing.Mix{Source: "capacitymix/web", Mix: m}, Replicas: len(on),
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
func moveOf(uid types.UID, ago time.Duration) rebalance.Move {
	return rebalance.Move{UID: uid, Namespace: "shop", Name: string(uid), Started: noon.Add(-ago), Target: sp, Slot: 4, Before: fourBefore}
}

var fourBefore = func() *[]clusterstate.Assignment {
	g := group(od, od, sp, sp)
	return &g.Assignments
}()

// reportIn is what an event has about a move for programs: the annotations as the recorder of tests prints them.
func reportIn(t *testing.T, annotations string) rebalance.MoveReport {
	t.Helper()
	text := strings.TrimSuffix(strings.TrimPrefix(annotations, v1alpha1.MoveAnnotation+":"), "]")
	r, ok := rebalance.MoveReportOf(text)
	require.True(t, ok, text)
	return r
}

// No program reads the message: the console follows the move by the annotation.
func TestTheEventOfAMoveHasItsStepsForPrograms(t *testing.T) {
	p := testController(t)
	g := group(od, od, od, sp)
	victim := g.Assignments[2].Pod
	w := p.evaluationOf(rebalance.Entry{Group: g})
	w.Now = noon
	a := rebalance.Action{
		Step: rebalance.StepEvict, Of: rebalance.Entry{Group: g, WrongSince: noon.Add(-time.Minute)},
		Verdict: rebalance.Verdict{Reason: rebalance.ReasonMove, Pod: victim, Target: sp},
		Proof:   &rebalance.Proof{Node: "spot-7"}, Move: rebalance.Move{Started: noon.Add(3 * time.Second)},
	}
	p.out.moved(t.Context(), w, a, rebalance.Result{})
	message, report, _ := strings.Cut(<-p.Recorder.(*record.FakeRecorder).Events, " map[")
	assert.Equal(t, "Normal ReplicaMoved Evicted pod web-2 from node node-web-2: its replacement fits on spot node spot-7", message)
	assert.Equal(t, rebalance.MoveReport{
		Pod: "web-2", UID: "web-2", Revision: "web-7d", From: "on-demand", FromNode: "node-web-2", To: "spot", Node: "spot-7", Slot: new(2),
		Since: noon.Add(-time.Minute), Decided: noon, Proven: noon.Add(3 * time.Second),
	}, reportIn(t, report))

	a.Proof = nil
	p.out.provisioned(t.Context(), w, a, rebalance.Result{Created: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "holder"}}})
	_, report, _ = strings.Cut(<-p.Recorder.(*record.FakeRecorder).Events, " map[")
	assert.Equal(t, "holder", reportIn(t, report).Placeholder)
	assert.Equal(t, victim.UID, reportIn(t, report).UID)
}

func TestEventsDescribeAFailedMove(t *testing.T) {
	for want, end := range map[string]rebalance.Ending{
		"Pod web-4 was evicted, and 5m0s later 9 of 10 replicas are available. ":         {Move: moveOf("web-4", time.Hour), Outcome: rebalance.TimedOut, Available: 9, Want: 10},
		"Pod web-4 was evicted to move to spot, and its replacement runs on on-demand. ": {Move: moveOf("web-4", time.Minute), Outcome: rebalance.Failed, On: od, Available: 10, Want: 10},
		"A placeholder was created, and was not scheduled in time. ":                     {Move: rebalance.Move{UID: "web-4", Name: "web-4", Target: sp}, Outcome: rebalance.NotProvisioned},
	} {
		p := testController(t)
		p.out.ended(t.Context(), &rebalance.Entry{Group: group(od), Failures: 1, RetryAt: noon.Add(time.Minute)}, end)
		message, report, _ := strings.Cut(<-p.Recorder.(*record.FakeRecorder).Events, " map[")
		assert.Equal(t, "Warning MoveFailed "+want+"Failed moves in a row: 1; the next is tried at 2026-06-01T12:01:00Z", message)
		assert.Equal(t, end.Move.UID, reportIn(t, report).UID)
	}
	for _, o := range []rebalance.Outcome{rebalance.Succeeded, rebalance.Abandoned, rebalance.NotEvicted} {
		p := testController(t)
		p.out.ended(t.Context(), &rebalance.Entry{Group: group(od)}, rebalance.Ending{Outcome: o})
		assert.Empty(t, p.Recorder.(*record.FakeRecorder).Events, "%s is no failure", o)
	}
}

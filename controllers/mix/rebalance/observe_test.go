// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

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

func TestEventsDescribeAFailedMove(t *testing.T) {
	for want, end := range map[string]rebalance.Ending{
		"Pod web-4 was evicted, and 5m0s later 9 of 10 replicas are available. ":         {Move: moveOf("web-4", time.Hour), Outcome: rebalance.TimedOut, Available: 9, Want: 10},
		"Pod web-4 was evicted to move to spot, and its replacement runs on on-demand. ": {Move: moveOf("web-4", time.Minute), Outcome: rebalance.Failed, On: od, Available: 10, Want: 10},
		"A placeholder was created, and was not scheduled in time. ":                     {Outcome: rebalance.NotProvisioned},
	} {
		p := testController(t)
		p.out.ended(t.Context(), &rebalance.Entry{Group: group(od), Failures: 1, RetryAt: noon.Add(time.Minute)}, end)
		assert.Equal(t, "Warning MoveFailed "+want+"Failed moves in a row: 1; the next is tried at 2026-06-01T12:01:00Z", <-p.Recorder.(*record.FakeRecorder).Events)
	}
	for _, o := range []rebalance.Outcome{rebalance.Succeeded, rebalance.Abandoned, rebalance.NotEvicted} {
		p := testController(t)
		p.out.ended(t.Context(), &rebalance.Entry{Group: group(od)}, rebalance.Ending{Outcome: o})
		assert.Empty(t, p.Recorder.(*record.FakeRecorder).Events, "%s is no failure", o)
	}
}

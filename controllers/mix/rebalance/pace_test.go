// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/rebalance"
)

// step lets time pass, and reconciles what is due.
func (p *fixture) step(t *testing.T, d time.Duration) {
	t.Helper()
	p.Clock.(*clocktesting.FakeClock).Step(d)
	p.reconcile(t, "shop")
}

func TestLeadersThatFollowEachOtherKeepThePace(t *testing.T) {
	p, s, k := journaled(t, 6)
	p.Defaults.MaxPerHour = 2
	p.reconcile(t, "shop")
	require.Len(t, s.evicted, 2, "many may move at a time")
	require.Contains(t, k.object.Data[pacesKey], `"n":2`)
	e, _ := p.Workloads.Get(strayKey)
	assert.Equal(t, rebalance.ReasonPace, e.Verdict.Reason)
	assert.Equal(t, "2 moves of this mix began within the last hour, and at most 2 may; the next may begin at "+
		e.Verdict.RetryAt.UTC().Format("15:04:05Z"), e.Verdict.Message)

	for range 5 {
		p = successor(t, p)
		p.Defaults.MaxPerHour = 2
		p.step(t, 10*time.Minute)
		require.Len(t, s.evicted, 2)
	}
	p.step(t, 11*time.Minute)
	assert.Len(t, s.evicted, 4)
	p.Defaults.MaxPerHour = 3
	p.step(t, time.Minute)
	assert.Len(t, s.evicted, 5, "another limit counts what began before")
}

// An eviction that was refused restarts nothing, so it is no move.
func TestAMoveThatDidNotBeginDoesNotCount(t *testing.T) {
	p, s, k := journaled(t, 2)
	p.ClusterMaxPerHour, p.Defaults.MaxPerHour = 1, 1
	s.on["evict"] = func() error { return errors.New("refused") }
	p.reconcile(t, "shop")
	require.Empty(t, s.evicted)
	assert.Empty(t, p.journal.paces.Cluster)
	p.reconcile(t, "other")
	assert.Empty(t, k.object.Data[pacesKey])
	delete(s.on, "evict")
	p.step(t, time.Hour)
	assert.Len(t, s.evicted, 1)
}

func TestAnEvictionCountsBeforeItIsRequested(t *testing.T) {
	p, s, k := journaled(t, 1)
	recorded := ""
	s.on["evict"] = func() error {
		recorded = k.object.Data[pacesKey]
		return nil
	}
	p.reconcile(t, "shop")
	require.Len(t, s.evicted, 1)
	assert.Contains(t, recorded, `"n":1`, "a controller that ends now has written it")
}

// A pace of the cluster gives every namespace its turn.
func TestNamespacesTakeTurnsInThePaceOfTheCluster(t *testing.T) {
	p, s := strayController(t, 4)
	p.Defaults.MaxConcurrent, p.Defaults.Stabilization, p.ClusterMaxConcurrent, p.ClusterMaxPerHour = 10, 0, 10, 1
	for i := range 4 {
		pod := podOf("aaa", sceneOwner{"clone.example/v1", "CloneSet", "first"}, i, 0)
		pod.Spec.NodeName = "on-demand"
		pod.Annotations[v1alpha1.SpotPercentAnnotation] = "100"
		s.pods[pod.Name] = pod
		p.State.SetPod(pod)
	}
	p.Changed(everything)
	p.drain(t)
	require.Len(t, s.evicted, 1)
	e, _ := p.Workloads.Get(strayKey)
	assert.Equal(t, rebalance.ReasonClusterPace, e.Verdict.Reason)
	for range 3 {
		for range 64 { // an hour, and what depends on others
			p.Clock.(*clocktesting.FakeClock).Step(time.Minute)
			p.drain(t)
		}
	}
	require.Len(t, s.evicted, 4, "one an hour")
	first := 0
	for _, name := range s.evicted {
		if strings.HasPrefix(name, "first-") {
			first++
		}
	}
	assert.Equal(t, 2, first, "%v", s.evicted)
}

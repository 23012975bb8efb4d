// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/internal/mix/rebalance"
)

// testGate is a gate that answers what the test sets.
type testGate struct {
	*HealthGate
	good    bool
	err     error
	changes int
}

func newGate() *testGate {
	g := &testGate{}
	g.HealthGate = NewHealthGate(func(context.Context) (bool, string, error) { return g.good, "value", g.err }, 30*time.Second,
		clocktesting.NewFakeClock(noon), func() { g.changes++ })
	return g
}

func TestNothingIsMovedUnlessTheGateIsGood(t *testing.T) {
	p, s, _ := journaled(t, 3)
	g := newGate()
	p.Health = g.HealthGate
	g.changed = func() { p.Changed(everything) }
	p.reconcile(t, "shop")
	require.Empty(t, s.evicted, "it was not queried yet")
	assert.Equal(t, rebalance.ReasonHealthGate, p.reasonOf(t, ""))
	for _, x := range []struct {
		good bool
		err  error
		want string
	}{
		{false, nil, "is not good since 12:00:00Z: value"},
		{true, errors.New("connection refused"), "it is unknown whether moves are safe: connection refused"},
	} {
		g.good, g.err = x.good, x.err
		g.poll(t.Context())
		p.drain(t)
		require.Empty(t, s.evicted)
		e, _ := p.Workloads.Get(strayKey)
		assert.Contains(t, e.Verdict.Message, x.want)
	}
	g.good, g.err = true, nil
	g.poll(t.Context())
	p.drain(t)
	assert.NotEmpty(t, s.evicted, "the gate has the workloads reconciled")
}

// The gate may close while capacity is being proven.
func TestAGateThatClosesDuringTheProofKeepsTheReplica(t *testing.T) {
	p, s, _ := journaled(t, 2)
	g := newGate()
	g.good = true
	p.Health = g.HealthGate
	g.poll(t.Context())
	s.on["list"] = func() error { // the pods are read after the proof
		g.good = false
		g.poll(t.Context())
		return nil
	}
	p.reconcile(t, "shop")
	assert.Empty(t, s.evicted)
}

func TestOnlyAnotherStateOfTheGateIsAChange(t *testing.T) {
	g := newGate()
	for range 3 {
		g.poll(t.Context())
	}
	assert.Equal(t, 1, g.changes)
	g.err = errors.New("away")
	for range 3 {
		g.poll(t.Context())
	}
	assert.Equal(t, 2, g.changes)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	g.err = nil
	g.poll(ended)
	assert.Equal(t, 2, g.changes, "a leader that ends learns nothing more")
}

func TestThePausesAndTheGateAreMetrics(t *testing.T) {
	p, _ := strayController(t, 1)
	g := newGate()
	p.Health = g.HealthGate
	expect := func(want string) {
		t.Helper()
		require.NoError(t, testutil.CollectAndCompare(p.Controller, strings.NewReader(want), "berth_mix_health_gate"))
	}
	expect(`# HELP berth_mix_health_gate The state of the health gate: 1 for the state that it is in, good, bad or unknown. Absent without a gate.
# TYPE berth_mix_health_gate gauge
berth_mix_health_gate{state="bad"} 0
berth_mix_health_gate{state="good"} 0
berth_mix_health_gate{state="unknown"} 1
`)
	p.Health = nil
	expect("")
}

// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func peer(name string, log *[]string, v float64) Peer {
	return Peer{Name: name, Run: func(context.Context) (Values, error) {
		*log = append(*log, name)
		return Values{"x": v * float64(len(*log))}, nil
	}}
}

func TestPeersAlternateInBothOrders(t *testing.T) {
	var log []string
	r, err := Options{Rounds: 3, MaxForeign: 1}.Interleave(t.Context(), Case{Name: "c", Peers: []Peer{peer("a", &log, 1), peer("b", &log, 2)}})
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "b", "a", "a", "b"}, log)
	assert.Equal(t, []float64{1, 4, 5}, r.Of("a", "x"))
	assert.Equal(t, []float64{4, 6, 12}, r.Of("b", "x"))
	assert.InDelta(t, 4, r.Median("a", "x"), 0)
	assert.InDelta(t, 2.4, r.Ratio("b", "a", "x"), 1e-9, "4, 1.5 and 2.4: of each round, not of the medians")
	assert.Equal(t, []string{"a", "b"}, r.Peers())
	assert.True(t, math.IsNaN(r.Median("c", "x")))
}

func TestDisturbedRoundsAreRepeatedAndThenKeptAndMarked(t *testing.T) {
	var log, told []string
	o := Options{Rounds: 2, MaxForeign: -1, Repeats: 3, Log: func(format string, _ ...any) { told = append(told, format) }} // every round is disturbed
	r, err := o.Interleave(t.Context(), Case{Name: "c", Peers: []Peer{peer("a", &log, 1)}})
	require.NoError(t, err)
	assert.Len(t, log, 5)
	assert.Len(t, told, 3)
	assert.Equal(t, 3, r.Discarded)
	require.Len(t, r.Rounds, 2)
	assert.True(t, r.Rounds[0].Disturbed && r.Rounds[1].Disturbed)
}

func TestAPeerThatFailsEndsTheCase(t *testing.T) {
	broken := Peer{Name: "b", Run: func(context.Context) (Values, error) { return nil, errors.New("no nodes") }}
	_, err := Options{Rounds: 1, MaxForeign: 1}.Interleave(t.Context(), Case{Name: "c", Peers: []Peer{broken}})
	require.EqualError(t, err, "c: b: no nodes")
}

func TestBusyTimeIsWithoutIdleAndGuests(t *testing.T) {
	got, err := busy([]byte("cpu  10 1 5 1000 200 2 3 4 7 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n"))
	require.NoError(t, err)
	assert.Equal(t, 250*time.Millisecond, got)
	_, err = busy([]byte("intr 1 2 3"))
	require.Error(t, err)
}

func TestForeignIsWhatOthersTook(t *testing.T) {
	before := processors{at: time.Unix(0, 0), busy: time.Second, own: time.Second}
	after := processors{at: time.Unix(10, 0), busy: 4 * time.Second, own: 2 * time.Second}
	assert.InDelta(t, 2.0/10/float64(thisMachine().Cores), foreign(before, after), 1e-9)
	assert.Zero(t, foreign(after, after))
}

func TestOwnTimeIsThatOfThisProcess(t *testing.T) {
	_, _, _, ok := processOf("12 (a) b) S 1 2")
	assert.False(t, ok)
	pid, parent, used, ok := processOf("12 (a b) c) S 7 12 12 0 -1 0 0 0 0 0 100 50 30 20 20 0 1 0 0")
	require.True(t, ok)
	assert.Equal(t, 12, pid)
	assert.Equal(t, 7, parent)
	assert.Equal(t, 2*time.Second, used)
	before := own()
	for began := ProcessorTime(); ProcessorTime()-began < 30*time.Millisecond; {
	}
	assert.GreaterOrEqual(t, own()-before, 20*time.Millisecond)
	p, err := ReadProcess(os.Getpid())
	require.NoError(t, err)
	assert.Greater(t, p.PeakBytes, 1e6)
	_, err = ReadProcess(-1)
	require.Error(t, err)
}

func TestQuantilesAreOfTheNearestRank(t *testing.T) {
	list := []float64{5, 1, 4, 2, 3}
	assert.InDelta(t, 3, Quantile(list, 0.5), 0)
	assert.InDelta(t, 5, Quantile(list, 0.99), 0)
	assert.InDelta(t, 1, Quantile(list, 0), 0)
	assert.InDelta(t, 2.5, Median([]float64{1, 2, 3, 4}), 0)
	assert.True(t, math.IsNaN(Quantile(nil, 0.5)))
}

func TestSuitesAreSavedAndLoaded(t *testing.T) {
	dir := t.TempDir()
	s := NewSuite("cycle", "go test")
	s.Add(Result{Name: "a", Rounds: []Round{{Peers: map[string]Values{"p": {"x": 1}}}}})
	s.Add(Result{Name: "a", Seconds: 2}) // replaces the first
	require.NoError(t, s.Save(dir))
	all, err := Load(dir)
	require.NoError(t, err)
	assert.Equal(t, map[string]*Suite{"cycle": s}, all)
	assert.Positive(t, s.Machine.Cores)
	assert.Positive(t, s.Machine.MemoryGiB)
	require.NoError(t, os.WriteFile(dir+"/other.json", []byte(`{"name":"x","unknown":1}`), 0o600))
	_, err = Load(dir)
	require.ErrorContains(t, err, "unknown")
}

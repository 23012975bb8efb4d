// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/test/perf/bench"
)

func TestPacedMakesEveryCallOnceAndNoneWaitsForAnother(t *testing.T) {
	const n = 20
	var calls [n]atomic.Int32
	all := make(chan struct{})
	var begun atomic.Int32
	took, err := bench.Paced(n, 2000, func(i int) error {
		calls[i].Add(1)
		if begun.Add(1) == n {
			close(all)
		}
		<-all // not before the last has begun
		return nil
	})
	require.NoError(t, err)
	require.Len(t, took, n)
	for i := range calls {
		assert.EqualValues(t, 1, calls[i].Load())
	}
	_, err = bench.Paced(3, 2000, func(i int) error {
		if i == 1 {
			return errors.New("no")
		}
		return nil
	})
	require.EqualError(t, err, "no")
}

func TestSaturatedMakesEveryCallOnceWithSoManyAtATime(t *testing.T) {
	const n, workers = 50, 4
	var calls [n]atomic.Int32
	var now, most atomic.Int32
	took, all, err := bench.Saturated(workers, n, func(i int) error {
		calls[i].Add(1)
		if c := now.Add(1); c > most.Load() {
			most.Store(c)
		}
		now.Add(-1)
		return nil
	})
	require.NoError(t, err)
	require.Len(t, took, n)
	assert.Positive(t, all)
	assert.LessOrEqual(t, most.Load(), int32(workers))
	for i := range calls {
		assert.EqualValues(t, 1, calls[i].Load())
	}
	var begun atomic.Int32
	_, _, err = bench.Saturated(1, n, func(int) error { begun.Add(1); return errors.New("no") })
	require.EqualError(t, err, "no")
	assert.EqualValues(t, 1, begun.Load(), "nothing is begun after it went wrong")
}

func TestMilliseconds(t *testing.T) {
	assert.Equal(t, []float64{1500, 0.25}, bench.Milliseconds([]time.Duration{1500 * time.Millisecond, 250 * time.Microsecond}))
}

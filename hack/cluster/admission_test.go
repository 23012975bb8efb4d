// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProcessorTimes(t *testing.T) {
	got, err := parseProcessorTimes([]byte("cpu  100 20 30 400 5 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n"))
	require.NoError(t, err)
	assert.Equal(t, processorTimes{left: 20 + 400 + 5, all: 576}, got)
	assert.InDelta(t, 0.25, processorTimes{left: 450, all: 676}.leftSince(got), 1e-9)
	assert.InDelta(t, 1, got.leftSince(got), 0, "no time passed")
	for _, stat := range []string{"", "cpu 1 2 3\n", "cpu a 2 3 4 5 6 7 8\n", "intr 1 2 3 4 5 6 7 8\n"} {
		_, err := parseProcessorTimes([]byte(stat))
		assert.ErrorContains(t, err, "/proc/stat", "%q", stat)
	}
}

// A machine of which the share that is left is set by the test.
func machine(share *atomic.Int64) func() (processorTimes, error) {
	var now processorTimes
	return func() (processorTimes, error) {
		now.all += 100
		now.left += uint64(share.Load())
		return now, nil
	}
}

func TestSuitesBeginWhenTheProcessorsHaveFreeCapacity(t *testing.T) {
	var left atomic.Int64
	a := newAdmission(time.Millisecond, machine(&left))
	for range alwaysRun {
		require.NoError(t, a.enter(t.Context()), "however busy the machine is")
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, a.enter(short), context.DeadlineExceeded, "a busy machine")
	entered := make(chan error, 1)
	go func() { entered <- a.enter(t.Context()) }()
	left.Store(100 * freeShare)
	require.NoError(t, <-entered, "a quarter is free")
	assert.EqualValues(t, alwaysRun+1, a.inside.Load())

	left.Store(0)
	go func() { entered <- a.enter(t.Context()) }()
	a.leave()
	a.leave()
	require.NoError(t, <-entered, "two have left")
	assert.EqualValues(t, alwaysRun, a.inside.Load())
}

func TestSuitesBeginByNumberWhereTheTimesCannotBeRead(t *testing.T) {
	a := newAdmission(time.Hour, func() (processorTimes, error) { return processorTimes{}, errors.New("no /proc/stat") })
	for range 10 {
		require.NoError(t, a.enter(t.Context()))
	}
}

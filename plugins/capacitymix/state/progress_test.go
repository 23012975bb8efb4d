// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProgressReachesWhatWasHandled(t *testing.T) {
	p := &Progress{}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, p.Reach(ended, "9"), "nothing was handled")
	p.Advance("10")
	p.Advance("7") // a list has its objects in any order
	for _, version := range []string{"9", "10", "", "0", "x"} {
		require.True(t, p.Reach(ended, version), version)
	}
	for _, version := range []string{"11", "100"} {
		require.False(t, p.Reach(ended, version), version)
	}
	p.Advance("x")
	require.True(t, p.Reach(ended, "10"), "what cannot be compared changes nothing")
}

func TestProgressWaitsForTheVersionAndNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Progress{}
		reached := make(chan bool, 1)
		go func() { reached <- p.Reach(t.Context(), "12") }()
		for _, version := range []string{"10", "11"} {
			synctest.Wait()
			p.Advance(version)
		}
		synctest.Wait()
		require.Empty(t, reached)
		p.Advance("13")
		require.True(t, <-reached)

		began := time.Now()
		require.False(t, p.Reach(t.Context(), "14"))
		require.Equal(t, catchUpTimeout, time.Since(began))
	})
}

func BenchmarkProgress(b *testing.B) {
	p := &Progress{}
	p.Advance("123456")
	b.ReportAllocs()
	for b.Loop() {
		p.Reach(b.Context(), "123450")
	}
}

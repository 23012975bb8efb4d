// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"pgregory.net/rapid"
)

// server answers so many requests at the same time, each after a latency or up to twice that; the others wait.
type server struct {
	capacity chan struct{}
	latency  time.Duration
}

func (s server) bind() error {
	s.capacity <- struct{}{}
	time.Sleep(s.latency + rand.N(s.latency)) // of synctest: nobody waits for it
	<-s.capacity
	return nil
}

// burst makes bindings as the scheduler does.
func burst(t testing.TB, b *Bindings, pods int, bind func() error) {
	var all sync.WaitGroup
	for range pods {
		b.Wait(t.Context())
		all.Go(func() { _ = b.Do(t.Context(), bind) })
	}
	all.Wait()
}

// In a world where rates differ by chance by a twentieth, the bound comes to what the server can do, and stays.
func TestTheBoundFindsWhatTheServerCanDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity, latency := rapid.IntRange(1, 400).Draw(t, "capacity"), rapid.Float64Range(0.001, 0.5).Draw(t, "latency")
		can := func(bound int) float64 { return float64(min(capacity, bound)) / latency }
		b := bound{now: firstBound}
		made, could := 0.0, 0.0
		for i := range 200 {
			w := window{done: windowTurns * b.now, full: true}
			rate := can(b.now) * (1 + rapid.Float64Range(-0.05, 0.05).Draw(t, "chance"))
			w.took = time.Duration(float64(w.done) / rate * float64(time.Second))
			if i >= 10 { // it has found out
				made, could = made+can(b.now), could+can(mostBound)
			}
			b = b.next(w)
			require.True(t, b.now >= leastBound && b.now <= mostBound, b.now)
			if capacity <= firstBound {
				require.LessOrEqual(t, b.now, firstBound*3/2, "more in progress are of no use")
			}
		}
		require.Greater(t, made, 0.8*could)
	})
}

func TestWithoutNeedTheBoundStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := bound{now: rapid.IntRange(leastBound, mostBound).Draw(t, "bound"), pause: rapid.IntRange(0, pauseWindows).Draw(t, "pause")}
		w := window{done: rapid.IntRange(1, 10_000).Draw(t, "done"), took: time.Second}
		require.Equal(t, b.now, b.next(w).now, "it was not reached")
		w.full, w.overloaded = rapid.Bool().Draw(t, "full"), w.done/100+1
		require.Equal(t, max(leastBound, b.now/2), b.next(w).now, "the server is overloaded")
	})
}

func TestBindingsGrowToWhatTheServerCanDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server{make(chan struct{}, mostBound), 100 * time.Millisecond}
		b := NewBindings(firstBound, time.Hour)
		burst(t, b, 5_000, s.bind)
		assert.Equal(t, mostBound, b.bound.now)
		assert.Zero(t, b.InProgress())
	})
}

func TestTheBoundIsHalvedForAnOverloadedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBindings(firstBound, time.Hour)
		overload := apierrors.NewTooManyRequestsError("slow down")
		burst(t, b, 1000, func() error { time.Sleep(time.Millisecond); return overload })
		assert.Equal(t, leastBound, b.bound.now)
		s := server{make(chan struct{}, mostBound), 10 * time.Millisecond}
		burst(t, b, 20_000, s.bind)
		assert.Greater(t, b.bound.now, 4*leastBound, "it grows again")
	})
}

func TestOtherErrorsAreNoOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBindings(firstBound, time.Hour)
		s := server{make(chan struct{}, firstBound), 10 * time.Millisecond}
		burst(t, b, 2_000, func() error { _ = s.bind(); return errors.New("the pod is gone") })
		assert.GreaterOrEqual(t, b.bound.now, firstBound)
	})
}

// Bindings that wait do so for longer than a window if there are many of them.
func TestWhatWaitsSinceAnEarlierWindowMakesItFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBindings(firstBound, time.Hour)
		s := server{make(chan struct{}, mostBound), 10 * time.Millisecond}
		var all sync.WaitGroup
		for range 20_000 {
			all.Go(func() { _ = b.Do(t.Context(), s.bind) })
		}
		all.Wait()
		assert.Equal(t, mostBound, b.bound.now)
	})
}

// A few pods now and then are no measure of the server.
func TestTheBoundStaysWhileItIsNotReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBindings(firstBound, time.Hour)
		s := server{make(chan struct{}, mostBound), 100 * time.Millisecond}
		for range 500 {
			burst(t, b, 5, s.bind)
			time.Sleep(time.Second)
		}
		assert.Equal(t, firstBound, b.bound.now)
	})
}

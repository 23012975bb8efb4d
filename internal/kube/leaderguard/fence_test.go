// SPDX-License-Identifier: Apache-2.0

package leaderguard

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// lease is a lock that is held in memory.
type lease struct {
	resourcelock.Interface
	record *resourcelock.LeaderElectionRecord
	err    error
	// during is called while a request is under way.
	during func()
}

func (l *lease) Identity() string { return "me" }

func (l *lease) Describe() string { return "lease" }

func (l *lease) RecordEvent(string) {}

// request answers one.
func (l *lease) request() error {
	if l.during != nil {
		l.during()
	}
	return l.err
}

func (l *lease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.request(); err != nil {
		return nil, nil, err
	}
	return l.record, []byte(l.record.RenewTime.String()), nil
}

func (l *lease) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}

func (l *lease) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	err := l.request()
	if err == nil {
		l.record = &r
	}
	return err
}

var errPartition = errors.New("no route to host")

// leader is a fence of a process that has just acquired its lease, and a clock that goes on while the process does not.
func leader(t *testing.T) (*Fence, *clocktesting.FakeClock, *lease, func()) {
	t.Helper()
	c := clocktesting.NewFakeClock(time.Unix(1000, 0))
	f, l := New(c), &lease{}
	lock := f.Lock(l, limits)
	require.NoError(t, lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}))
	return f, c, l, func() { _ = lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}) }
}

func stop(c *clocktesting.FakeClock, d time.Duration) { c.SetTime(c.Now().Add(d)) }

// Nothing has to run between the acquisition and the stop.
func TestTheFenceIsArmedByTheAcquisitionOfTheLease(t *testing.T) {
	f, c, _, _ := leader(t)
	stop(c, 20*time.Second)
	assert.True(t, f.Shut())
	assert.True(t, f.Shut(), "and later")
}

func TestAStopWhileTheLeaseIsAcquiredCounts(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Unix(1000, 0))
	f := New(c)
	lock := f.Lock(&lease{during: func() { stop(c, 20*time.Second) }}, limits)
	require.NoError(t, lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}))
	assert.True(t, f.Shut())
}

// No gap is longer than the renew deadline.
func TestRepeatedShortStopsShutTheFenceBeforeTheLeaseExpires(t *testing.T) {
	f, c, _, _ := leader(t)
	stop(c, 9*time.Second)
	assert.False(t, f.Shut())
	c.Step(300 * time.Millisecond)
	assert.False(t, f.Shut())
	stop(c, 9*time.Second)
	assert.True(t, f.Shut(), "18 s after the last renewal of a lease of 15 s")
}

func TestAStopAfterRenewalsFailedShutsTheFence(t *testing.T) {
	f, c, l, renew := leader(t)
	l.err = errPartition
	for range 4 {
		c.Step(2 * time.Second)
		renew()
		assert.False(t, f.Shut())
	}
	stop(c, 8*time.Second)
	assert.True(t, f.Shut(), "16 s after the last renewal")
	l.err = nil
	renew()
	assert.True(t, f.Shut(), "a renewal comes too late")
}

func TestRenewalsKeepTheFenceOpenThroughShortStops(t *testing.T) {
	f, c, _, renew := leader(t)
	for range 100 {
		stop(c, 9*time.Second)
		renew()
		assert.False(t, f.Shut())
	}
}

func TestTheFenceIsShutBeforeTheLeaseIsGivenUp(t *testing.T) {
	f, _, l, _ := leader(t)
	l.during = func() { assert.True(t, f.Shut()) }
	require.NoError(t, f.Lock(l, limits).Update(t.Context(), resourcelock.LeaderElectionRecord{}))
	assert.True(t, f.Shut())
}

func TestAProcessThatDoesNotLeadMayBeStopped(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Unix(1000, 0))
	f := New(c)
	require.Error(t, f.Lock(&lease{err: errPartition}, limits).Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}))
	stop(c, time.Hour)
	assert.False(t, f.Shut())
}

// With client-go's own election: what fails for as long as it goes on trying does no harm.
func TestAnElectionThatRenewsBeforeItsDeadlineNeverShutsTheFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(clock.RealClock{})
		time.Sleep(time.Hour) // it was a standby
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.Run(ctx, limits) }()
		l := &lease{record: &resourcelock.LeaderElectionRecord{}}
		l.during = func() {
			time.Sleep(time.Second)
			l.err = nil
			if time.Now().Unix()%120 < 7 {
				l.err = errPartition
			}
		}
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: f.Lock(l, limits), LeaseDuration: limits.Lease, RenewDeadline: limits.RenewDeadline, RetryPeriod: 2 * time.Second,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
		})
		require.NoError(t, err)
		lead, lose := context.WithCancel(t.Context())
		lost := make(chan struct{})
		go func() { elector.Run(lead); close(lost) }()
		time.Sleep(time.Hour)
		require.True(t, elector.IsLeader())
		require.False(t, f.Shut())
		lose()
		<-lost
		time.Sleep(limits.age() + 1)
		require.True(t, f.Shut(), "and now it is not renewed")
		require.ErrorIs(t, <-ended, ErrShut)
		cancel()
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, New(clock.RealClock{}).Run(ctx, limits))
	})
}

func TestRunReturnsOnceTheFenceIsShut(t *testing.T) {
	f, c, _, _ := leader(t)
	ended := make(chan error, 1)
	go func() { ended <- f.Run(t.Context(), limits) }()
	require.Eventually(t, c.HasWaiters, time.Minute, time.Millisecond)
	c.Step(2 * limits.RenewDeadline)
	require.ErrorIs(t, <-ended, ErrShut)
}

// A leader that was stopped gives up no lease when it ends: another replica holds it by then, and goes on to write.
func TestALeaderThatWasStoppedDoesNotReleaseALease(t *testing.T) {
	f, c, l, _ := leader(t)
	lock := f.Lock(l, limits)
	stop(c, 20*time.Second)
	l.record = &resourcelock.LeaderElectionRecord{HolderIdentity: "other"}
	require.ErrorIs(t, lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}), ErrShut)
	assert.Equal(t, "other", l.record.HolderIdentity)
}

func TestALeaderThatEndsInTimeReleasesItsLease(t *testing.T) {
	f, _, l, _ := leader(t)
	require.NoError(t, f.Lock(l, limits).Update(t.Context(), resourcelock.LeaderElectionRecord{}))
	assert.Empty(t, l.record.HolderIdentity)
	assert.True(t, f.Shut())
}

// SPDX-License-Identifier: Apache-2.0

package leaderguard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

var limits = Limits{Lease: 15 * time.Second, RenewDeadline: 10 * time.Second}

func TestLastRenewalIsNeverAsOldAsTheLease(t *testing.T) {
	assert.Equal(t, 12500*time.Millisecond, limits.age())
	rapid.Check(t, func(t *rapid.T) {
		l := someLimits(t)
		assert.Greater(t, l.Lease, l.age())
		assert.GreaterOrEqual(t, l.age(), l.RenewDeadline)
	})
}

func someLimits(t *rapid.T) Limits {
	deadline := rapid.Int64Range(int64(time.Second), int64(time.Minute)).Draw(t, "renew deadline")
	return Limits{
		RenewDeadline: time.Duration(deadline),
		Lease:         time.Duration(deadline + rapid.Int64Range(1, int64(time.Minute)).Draw(t, "rest of the lease")),
	}
}

func some(t *rapid.T, what string, most time.Duration) time.Duration {
	return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, what))
}

// Whatever is renewed, refused and paused, and whichever clock stops: a term that is not over has a lease that
// no other replica can have taken, and one that is over stays so.
func TestNoScheduleOfRenewalsAndPausesOutlivesTheLease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := someLimits(t)
		var tm term
		var clocks elapsed
		var renewed, now time.Duration // on the clock of the other replicas
		pass := func(what string) time.Duration {
			d := some(t, what, 2*l.Lease)
			now += d
			switch rapid.SampledFrom([]string{"both", "suspended", "set back"}).Draw(t, "clocks") {
			case "suspended":
				return clocks.read(clocks.monotonic, clocks.wall+d)
			case "set back":
				return clocks.read(clocks.monotonic+d, clocks.wall+d-some(t, "set back by", time.Hour))
			default:
				return clocks.read(clocks.monotonic+d, clocks.wall+d)
			}
		}
		over := false
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			at := pass("pause")
			switch rapid.SampledFrom([]string{"write", "renewal", "refused renewal"}).Draw(t, "step") {
			case "renewal":
				sent := now
				answered := pass("until it is answered")
				if !tm.leads || now-renewed < l.Lease { // the API server accepts it while no other replica leads
					tm.renew(at, answered, l)
					renewed = sent
				}
			case "refused renewal":
				pass("until it is refused")
			case "write":
				tm.observe(at)
				if tm.leads && !tm.over && now-renewed > l.age() {
					t.Fatalf("a write %s after the last renewal of a lease of %s", now-renewed, l.Lease)
				}
			}
			if over && !tm.over {
				t.Fatal("it is open again")
			}
			over = tm.over
		}
	})
}

// A process that runs and renews in time is never shut, whatever a renewal takes.
func TestATermIsNotOverWhileTheLeaseIsRenewedInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := someLimits(t)
		var tm term
		var at time.Duration
		run := func(d time.Duration) { // observed at least once in each renew deadline
			for d > 0 {
				step := min(d, l.RenewDeadline/4+some(t, "until observed", l.RenewDeadline/4*3))
				at, d = at+step, d-step
				tm.observe(at)
			}
		}
		run(some(t, "standby", 10*l.Lease))
		tm.renew(at, at, l)
		for range rapid.IntRange(0, 10).Draw(t, "renewals") {
			left := l.age() - (at - tm.renewed)
			rest := some(t, "until the next renewal", left)
			run(rest)
			sent := at
			run(some(t, "until it is answered", left-rest))
			tm.renew(sent, at, l)
		}
		if tm.over {
			t.Fatal("it is shut")
		}
	})
}

func TestATermEnds(t *testing.T) {
	s := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	for name, tc := range map[string]struct {
		run  func(tm *term)
		over bool
	}{
		"a standby is stopped":                   {run: func(tm *term) { *tm = term{}; tm.observe(s(3600)) }},
		"it runs to the limit":                   {run: func(tm *term) { tm.observe(s(9)); tm.observe(s(12.5)) }},
		"one long stop":                          {over: true, run: func(tm *term) { tm.observe(s(10.1)) }},
		"short stops":                            {over: true, run: func(tm *term) { tm.observe(s(9)); tm.observe(s(9.3)); tm.observe(s(18.3)) }},
		"short stops, the lease is renewed":      {run: func(tm *term) { tm.observe(s(9)); tm.renew(s(9.1), s(9.2), limits); tm.observe(s(18.3)) }},
		"short stops, it is renewed in the end":  {over: true, run: func(tm *term) { tm.observe(s(9)); tm.renew(s(18.1), s(18.2), limits) }},
		"a stop after renewals failed":           {over: true, run: func(tm *term) { tm.observe(s(4)); tm.observe(s(8)); tm.observe(s(13)) }},
		"a stop while the first is under way":    {over: true, run: func(tm *term) { *tm = term{}; tm.renew(s(0), s(11), limits) }},
		"it is answered too late":                {over: true, run: func(tm *term) { tm.observe(s(6)); tm.renew(s(6), s(12.6), limits) }},
		"the next stop counts from when it sent": {over: true, run: func(tm *term) { tm.renew(s(1), s(6), limits); tm.observe(s(13.6)) }},
		"it is given up":                         {over: true, run: func(tm *term) { tm.release() }},
		"a standby gives nothing":                {run: func(tm *term) { *tm = term{}; tm.release() }},
	} {
		t.Run(name, func(t *testing.T) {
			tm := term{}
			tm.renew(s(0), s(0), limits)
			tc.run(&tm)
			assert.Equal(t, tc.over, tm.over)
		})
	}
}

func TestTheClockThatIsAheadCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		monotonic, wall []time.Duration // read one after the other
		want            time.Duration
	}{
		"both run":                         {monotonic: []time.Duration{3, 8}, wall: []time.Duration{103, 108}, want: 8},
		"the machine is suspended":         {monotonic: []time.Duration{3, 4}, wall: []time.Duration{103, 3000}, want: 2900},
		"the wall clock is set back":       {monotonic: []time.Duration{3, 13}, wall: []time.Duration{103, 0}, want: 13},
		"set back, and suspended":          {monotonic: []time.Duration{10, 10}, wall: []time.Duration{0, 10}, want: 20},
		"time does not run back":           {monotonic: []time.Duration{10, 10}, wall: []time.Duration{110, 0}, want: 10},
		"set forward and back counts once": {monotonic: []time.Duration{1, 2}, wall: []time.Duration{150, 102}, want: 51},
	} {
		t.Run(name, func(t *testing.T) {
			e := elapsed{wall: 100}
			var got time.Duration
			for i := range tc.monotonic {
				got = e.read(tc.monotonic[i], tc.wall[i])
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

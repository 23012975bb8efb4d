// SPDX-License-Identifier: Apache-2.0

package nfr

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
)

func drawSettings(t *rapid.T) Settings {
	return Settings{
		Stability:        time.Duration(rapid.IntRange(1, 400).Draw(t, "stability")) * time.Second,
		Cooldown:         time.Duration(rapid.IntRange(0, 400).Draw(t, "cooldown")) * time.Second,
		Interval:         time.Duration(rapid.IntRange(1, 90).Draw(t, "interval")) * time.Second,
		MaxReplicas:      rapid.Int64Range(1, 60).Draw(t, "max replicas"),
		MaxDeltaPercent:  rapid.Int64Range(0, 100).Draw(t, "max delta"),
		TolerancePercent: rapid.Int64Range(0, 30).Draw(t, "tolerance"),
	}
}

// stored is a time as it comes back from the API: in whole seconds.
func stored(t *rapid.T, at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	b, err := json.Marshal(metav1.NewTime(at))
	require.NoError(t, err)
	var back metav1.Time
	require.NoError(t, json.Unmarshal(b, &back))
	return back.Time
}

// look is one decision of a run, with what was known when it was made.
type look struct {
	now     time.Time
	target  *int64
	current int64
	verdict Verdict
}

// run lets a recommendation that comes and goes be enforced for a while. restarts says after which looks everything that is
// remembered comes from the API.
func run(t *rapid.T, s Settings, low, high int64, restarts func(int) bool) []look {
	current := rapid.Int64Range(0, 60).Draw(t, "current")
	now := time.Unix(1_800_000_000, rapid.Int64Range(0, 1e9-1).Draw(t, "nanoseconds"))
	target := new(rapid.Int64Range(0, 80).Draw(t, "target"))
	var looks []look
	var window *Window
	var last time.Time
	for i := range rapid.IntRange(1, 60).Draw(t, "looks") {
		// Mostly on time, sometimes early, late, or after a long while.
		after := rapid.SampledFrom([]time.Duration{s.Interval, s.Interval, s.Interval, s.Interval / 3, s.Interval * 2, s.Interval * 3, time.Hour}).Draw(t, "after")
		now = now.Add(after + time.Duration(rapid.IntRange(0, 1e9).Draw(t, "jitter")))
		switch rapid.IntRange(0, 11).Draw(t, "change") {
		case 0:
			target = new(rapid.Int64Range(0, 80).Draw(t, "target"))
		case 1:
			target = nil
		}
		if restarts(i) && window != nil {
			window = &Window{window.Target, stored(t, window.Since), stored(t, window.Seen)}
		}
		if restarts(i) {
			last = stored(t, last)
		}
		v := Step(Input{
			Mode: v1alpha1.EnforcementEnforce, Current: current, Target: target, Window: window, LastApplied: last, Now: now, Low: low, High: high,
		}, s)
		looks = append(looks, look{now, target, current, v})
		if window = v.Window; v.Reason == ReasonApply {
			current, last = v.Value, v.At
		}
	}
	return looks
}

func TestAStepIsNeitherTooEarlyNorTooLarge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSettings(t)
		low, high := rapid.Int64Range(0, 5).Draw(t, "low"), rapid.SampledFrom([]int64{0, 5, 10, 100}).Draw(t, "high")
		looks := run(t, s, low, high, func(int) bool { return rapid.Bool().Draw(t, "restart") })
		var applied time.Time
		for i, l := range looks {
			v := l.verdict
			if v.Reason != ReasonApply {
				continue
			}
			require.NotNil(t, l.target, "nothing is done on no data")
			require.Positive(t, *l.target, "nothing is done on zero data")
			if !applied.IsZero() {
				require.GreaterOrEqual(t, l.now.Sub(applied), s.Cooldown+s.Stability, "the cooldown, and then a whole window")
			}
			applied = l.now

			// Back to the look at which the target appeared: long enough ago, and no gap between.
			first := i
			for first > 0 && looks[first].now.Sub(looks[first-1].now) <= s.Gap() && looks[first-1].verdict.Reason != ReasonApply &&
				(looks[first-1].verdict.Reason == ReasonNoData || looks[first-1].verdict.Target == v.Target) {
				first--
			}
			require.GreaterOrEqual(t, l.now.Sub(looks[first].now), s.Stability, "recommended for that long")

			delta := max(v.Value-l.current, l.current-v.Value)
			require.LessOrEqual(t, delta, max(1, l.current*s.MaxDeltaPercent/100), "one step")
			require.Positive(t, delta, "a step is one")
			require.GreaterOrEqual(t, v.Value, min(l.current, max(1, low)), "not below the minimum")
			require.LessOrEqual(t, v.Value, max(l.current, max(s.MaxReplicas, low)), "not above the maximum")
			away := func(n int64) int64 { return max(n-v.Target, v.Target-n) }
			require.Equal(t, away(l.current)-delta, away(v.Value), "towards the target, not beyond")
		}
	})
}

// Whoever decides, with what it remembers or with what is stored, decides the same, a second more or less.
func TestARestartSkipsNoWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSettings(t)
		target := rapid.Int64Range(1, 60).Draw(t, "target")
		in := Input{
			Mode: v1alpha1.EnforcementEnforce, Current: rapid.Int64Range(0, 60).Draw(t, "current"), Target: &target,
			Now: time.Unix(1_800_000_000, rapid.Int64Range(0, 1e9-1).Draw(t, "nanoseconds")),
		}
		began := in.Now
		for range 20 {
			v := Step(in, s)
			if v.Reason != ReasonWaiting {
				if v.Reason == ReasonApply {
					require.GreaterOrEqual(t, in.Now.Sub(began), s.Stability)
				}
				return
			}
			in.Window = v.Window
			if rapid.Bool().Draw(t, "restart") {
				in.Window = &Window{v.Window.Target, stored(t, v.Window.Since), stored(t, v.Window.Seen)}
			}
			down := rapid.SampledFrom([]time.Duration{s.Interval, 2 * s.Interval, s.Gap() + 2*time.Second}).Draw(t, "down")
			in.Now = in.Now.Add(down)
			if down > s.Gap() {
				began = in.Now
			}
		}
	})
}

// A recommendation that stays is reached, step by step and from one side, and then nothing more happens.
func TestItConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSettings(t)
		low, high := rapid.Int64Range(0, 5).Draw(t, "low"), rapid.SampledFrom([]int64{0, 5, 10, 100}).Draw(t, "high")
		target := rapid.Int64Range(1, 80).Draw(t, "target")
		in := Input{
			Mode: v1alpha1.EnforcementEnforce, Current: rapid.Int64Range(0, 60).Draw(t, "current"), Target: &target, Low: low, High: high,
			Now: time.Unix(1_800_000_000, 0),
		}
		var steps []int64
		// At least one look in each window and cooldown, and a step at least one replica: 80 steps at most.
		looks := 80 * int(3+(s.Stability+s.Cooldown)/s.Interval)
		for range looks {
			v := Step(in, s)
			if in.Window = v.Window; v.Reason == ReasonApply {
				steps = append(steps, v.Value-in.Current)
				in.Current, in.LastApplied = v.Value, v.At
			}
			in.Now = in.Now.Add(s.Interval)
		}
		for _, d := range steps {
			require.Equal(t, steps[0] > 0, d > 0, "all in one direction")
		}
		v := Step(in, s)
		if v.Reason == ReasonAboveMaximum {
			require.Greater(t, in.Current, s.MaxReplicas)
			require.Greater(t, target, s.MaxReplicas)
			return // what is over the function's own maximum was taken back
		}
		require.Equal(t, ReasonWithinTolerance, v.Reason)
		require.LessOrEqual(t, max(v.Target-in.Current, in.Current-v.Target)*100, in.Current*s.TolerancePercent)
	})
}

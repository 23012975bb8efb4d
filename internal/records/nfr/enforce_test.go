// SPDX-License-Identifier: Apache-2.0

package nfr

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// before is so many seconds before noon.
func before(seconds int) time.Time { return noon.Add(-time.Duration(seconds) * time.Second) }

// window is one that began, and was confirmed, so many seconds before noon.
func window(target int64, began, seen int) *Window {
	return &Window{Target: target, Since: before(began), Seen: before(seen)}
}

// from is an input with a recommendation.
func from(current, target int64, w *Window) Input {
	return Input{Current: current, Target: &target, Window: w}
}

func TestStep(t *testing.T) {
	waiting := func(target int64, w *Window) Verdict {
		return Verdict{Reason: ReasonWaiting, Target: target, Window: w}
	}
	apply := func(target, value int64) Verdict {
		return Verdict{Reason: ReasonApply, Target: target, Value: value, At: noon}
	}
	for name, c := range map[string]struct {
		in       Input
		settings func(*Settings)
		want     Verdict
	}{
		"CR-23: off":                    {in: Input{Mode: v1alpha1.EnforcementOff, Current: 2, Target: new(int64(4)), Window: window(4, 600, 60)}, want: Verdict{Reason: ReasonOff}},
		"CR-23: observe":                {in: Input{Mode: v1alpha1.EnforcementObserve, Current: 2, Target: new(int64(4)), Window: window(4, 600, 60)}, want: Verdict{Reason: ReasonObserving}},
		"CR-23: no mode is observe":     {in: from(2, 4, window(4, 600, 60)), want: Verdict{Reason: ReasonObserving}},
		"a window begins":               {in: from(2, 4, nil), want: waiting(4, window(4, 0, 0))},
		"it goes on":                    {in: from(2, 4, window(4, 179, 60)), want: waiting(4, window(4, 179, 0))},
		"it is over":                    {in: from(2, 4, window(4, 180, 60)), want: apply(4, 3)},
		"another target restarts it":    {in: from(2, 5, window(4, 600, 60)), want: waiting(5, window(5, 0, 0))},
		"so does one on the other side": {in: from(2, 1, window(4, 600, 60)), want: waiting(1, window(1, 0, 0))},

		"two and a half intervals without a measurement leave it": {
			in:   from(2, 4, window(4, 170, 150)),
			want: waiting(4, window(4, 170, 0)),
		},
		"more restart it: the controller was down":             {in: from(2, 4, window(4, 3600, 151)), want: waiting(4, window(4, 0, 0))},
		"one that lies ahead restarts: the clock was set back": {in: from(2, 4, window(4, -2, -2)), want: waiting(4, window(4, 0, 0))},
		"one that began before the last step restarts": {
			in:   Input{Current: 2, Target: new(int64(4)), Window: window(4, 600, 60), LastApplied: before(130)},
			want: waiting(4, window(4, 0, 0)),
		},
		"it begins with the next whole second": {
			in:   Input{Current: 2, Target: new(int64(4)), Now: noon.Add(time.Nanosecond)},
			want: Verdict{Reason: ReasonWaiting, Target: 4, Window: &Window{4, before(-1), noon.Add(time.Nanosecond)}},
		},

		"a step counts from the next whole second": {
			in:   Input{Current: 2, Target: new(int64(4)), Window: window(4, 600, 60), Now: noon.Add(time.Nanosecond)},
			want: Verdict{Reason: ReasonApply, Target: 4, Value: 3, At: before(-1)},
		},
		"after a step nothing happens": {
			in:   Input{Current: 2, Target: new(int64(4)), Window: window(4, 600, 60), LastApplied: before(119)},
			want: Verdict{Reason: ReasonCoolingDown, Target: 4},
		},
		"until the cooldown is over: then a window begins": {
			in:   Input{Current: 2, Target: new(int64(4)), LastApplied: before(120)},
			want: waiting(4, window(4, 0, 0)),
		},
		"a step that lies ahead does not stop everything": {
			in:   Input{Current: 2, Target: new(int64(4)), Window: window(4, 180, 60), LastApplied: before(-3600)},
			want: apply(4, 3),
		},

		"no recommendation changes nothing":       {in: Input{Current: 9}, want: Verdict{Reason: ReasonNoData}},
		"nor does a recommendation of 0":          {in: from(9, 0, nil), want: Verdict{Reason: ReasonNoData}},
		"one measurement that failed is not many": {in: Input{Current: 2, Window: window(4, 100, 60)}, want: Verdict{Reason: ReasonNoData, Window: window(4, 100, 60)}},
		"after many that failed the window is gone": {
			in: Input{Current: 2, Window: window(4, 3600, 151)}, want: Verdict{Reason: ReasonNoData},
		},

		"what is there already":                {in: from(4, 4, window(4, 600, 60)), want: Verdict{Reason: ReasonWithinTolerance, Target: 4}},
		"a tenth more":                         {in: from(10, 11, window(11, 600, 60)), want: Verdict{Reason: ReasonWithinTolerance, Target: 11}},
		"a tenth less":                         {in: from(10, 9, window(9, 600, 60)), want: Verdict{Reason: ReasonWithinTolerance, Target: 9}},
		"more than a tenth":                    {in: from(9, 10, window(10, 600, 60)), want: apply(10, 10)},
		"a tenth, but it is above the maximum": {in: Input{Current: 10, High: 9, Target: new(int64(9)), Window: window(9, 600, 60)}, want: apply(9, 9)},

		"at most 30 % up":              {in: from(10, 20, window(20, 600, 60)), want: apply(20, 13)},
		"at most 30 % down":            {in: from(10, 1, window(1, 600, 60)), want: apply(1, 7)},
		"rounded down":                 {in: from(6, 20, window(20, 600, 60)), want: apply(20, 7)},
		"but one is always possible":   {in: from(1, 20, window(20, 600, 60)), want: apply(20, 2)},
		"also from 0":                  {in: from(0, 3, window(3, 600, 60)), want: apply(3, 1)},
		"one down is possible as well": {in: from(2, 1, window(1, 600, 60)), want: apply(1, 1)},

		"no more than MaxReplicas":                  {in: from(19, 40, window(20, 600, 60)), settings: func(s *Settings) { s.TolerancePercent = 0 }, want: apply(20, 20)},
		"two targets above it are one":              {in: from(10, 41, window(20, 100, 60)), want: waiting(20, window(20, 100, 0))},
		"no more than the function's maxScale":      {in: Input{Current: 2, High: 3, Target: new(int64(9)), Window: window(3, 600, 60)}, want: apply(3, 3)},
		"no fewer than the function's minScale":     {in: Input{Current: 4, Low: 3, Target: new(int64(1)), Window: window(3, 600, 60)}, want: apply(3, 3)},
		"minScale goes before MaxReplicas":          {in: Input{Current: 30, Low: 30, Target: new(int64(1)), Window: window(30, 600, 60)}, want: Verdict{Reason: ReasonWithinTolerance, Target: 30}},
		"a user set more than MaxReplicas, needed":  {in: from(30, 25, window(20, 600, 60)), want: Verdict{Reason: ReasonAboveMaximum, Target: 20}},
		"a user set more, not needed":               {in: from(30, 5, window(5, 600, 60)), want: apply(5, 21)},
		"more than the function's maxScale, needed": {in: Input{Current: 12, High: 10, Target: new(int64(15)), Window: window(10, 600, 60)}, want: apply(10, 10)},

		"CR-25: minReplicas is not lowered": {in: Input{Current: 4, RaiseOnly: true, Target: new(int64(1)), Window: window(1, 600, 60)}, want: Verdict{Reason: ReasonRaiseOnly, Target: 1}},
		"CR-25: it is raised":               {in: Input{Current: 4, RaiseOnly: true, Target: new(int64(5)), Window: window(5, 600, 60)}, want: apply(5, 5)},
	} {
		t.Run(name, func(t *testing.T) {
			settings := DefaultSettings
			if c.settings != nil {
				c.settings(&settings)
			}
			if c.in.Now.IsZero() {
				c.in.Now = noon
			}
			if c.in.Mode == "" && c.want.Reason != ReasonObserving {
				c.in.Mode = v1alpha1.EnforcementEnforce
			}
			given := ptr.Deref(c.in.Window, Window{})
			assert.Equal(t, c.want, Step(c.in, settings))
			assert.Equal(t, given, ptr.Deref(c.in.Window, Window{}), "what was given stays")
		})
	}
}

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

// run lets a recommendation that comes and goes be enforced for a while. restarts has the reconciles after which everything that is
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

// A process that remembers and one that reads what is stored decide the same, a second more or less.
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
func TestReplicasConvergeToTheRecommendation(t *testing.T) {
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

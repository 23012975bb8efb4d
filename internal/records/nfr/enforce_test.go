// SPDX-License-Identifier: Apache-2.0

package nfr

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/utils/ptr"

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

		"no more than MaxReplicas":                   {in: from(19, 40, window(20, 600, 60)), settings: func(s *Settings) { s.TolerancePercent = 0 }, want: apply(20, 20)},
		"two targets above it are one":               {in: from(10, 41, window(20, 100, 60)), want: waiting(20, window(20, 100, 0))},
		"no more than the function's maxScale":       {in: Input{Current: 2, High: 3, Target: new(int64(9)), Window: window(3, 600, 60)}, want: apply(3, 3)},
		"no fewer than the function's minScale":      {in: Input{Current: 4, Low: 3, Target: new(int64(1)), Window: window(3, 600, 60)}, want: apply(3, 3)},
		"minScale goes before MaxReplicas":           {in: Input{Current: 30, Low: 30, Target: new(int64(1)), Window: window(30, 600, 60)}, want: Verdict{Reason: ReasonWithinTolerance, Target: 30}},
		"somebody set more than MaxReplicas, needed": {in: from(30, 25, window(20, 600, 60)), want: Verdict{Reason: ReasonAboveMaximum, Target: 20}},
		"somebody set more, not needed":              {in: from(30, 5, window(5, 600, 60)), want: apply(5, 21)},
		"more than the function's maxScale, needed":  {in: Input{Current: 12, High: 10, Target: new(int64(15)), Window: window(10, 600, 60)}, want: apply(10, 10)},

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

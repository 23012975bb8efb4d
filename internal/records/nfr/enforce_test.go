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

// ago is a window that began so many seconds before noon and was confirmed a minute before it.
func ago(target int64, seconds int) *Window {
	return &Window{Target: target, Since: noon.Add(-time.Duration(seconds) * time.Second), Seen: noon.Add(-time.Minute)}
}

func TestStep(t *testing.T) {
	enforce := v1alpha1.EnforcementEnforce
	// A window that is confirmed, or begins, at noon.
	kept := func(target int64, seconds int) *Window {
		return &Window{Target: target, Since: noon.Add(-time.Duration(seconds) * time.Second), Seen: noon}
	}
	for name, c := range map[string]struct {
		in       Input
		settings func(*Settings)
		want     Verdict
	}{
		"CR-23: off":                    {in: Input{Mode: v1alpha1.EnforcementOff, Current: 2, Target: ptr.To[int64](4), Window: ago(4, 600)}, want: Verdict{Reason: ReasonOff}},
		"CR-23: observe":                {in: Input{Mode: v1alpha1.EnforcementObserve, Current: 2, Target: ptr.To[int64](4), Window: ago(4, 600)}, want: Verdict{Reason: ReasonObserving}},
		"CR-23: no mode is observe":     {in: Input{Current: 2, Target: ptr.To[int64](4), Window: ago(4, 600)}, want: Verdict{Reason: ReasonObserving}},
		"a window begins":               {in: Input{Current: 2, Target: ptr.To[int64](4)}, want: Verdict{Reason: ReasonWaiting, Target: 4, Window: kept(4, 0)}},
		"it goes on":                    {in: Input{Current: 2, Target: ptr.To[int64](4), Window: ago(4, 179)}, want: Verdict{Reason: ReasonWaiting, Target: 4, Window: kept(4, 179)}},
		"it is over":                    {in: Input{Current: 2, Target: ptr.To[int64](4), Window: ago(4, 180)}, want: Verdict{Reason: ReasonApply, Target: 4, Value: 3, At: noon}},
		"another target restarts it":    {in: Input{Current: 2, Target: ptr.To[int64](5), Window: ago(4, 600)}, want: Verdict{Reason: ReasonWaiting, Target: 5, Window: kept(5, 0)}},
		"so does one on the other side": {in: Input{Current: 2, Target: ptr.To[int64](1), Window: ago(4, 600)}, want: Verdict{Reason: ReasonWaiting, Target: 1, Window: kept(1, 0)}},

		"two and a half intervals without a measurement leave it": {
			in:   Input{Current: 2, Target: ptr.To[int64](4), Window: &Window{4, noon.Add(-170 * time.Second), noon.Add(-150 * time.Second)}},
			want: Verdict{Reason: ReasonWaiting, Target: 4, Window: kept(4, 170)},
		},
		"more restart it: the controller was down": {
			in:   Input{Current: 2, Target: ptr.To[int64](4), Window: &Window{4, noon.Add(-time.Hour), noon.Add(-151 * time.Second)}},
			want: Verdict{Reason: ReasonWaiting, Target: 4, Window: kept(4, 0)},
		},
		"one that lies ahead restarts: the clock was set back": {
			in:   Input{Current: 2, Target: ptr.To[int64](4), Window: &Window{4, noon.Add(2 * time.Second), noon.Add(2 * time.Second)}},
			want: Verdict{Reason: ReasonWaiting, Target: 4, Window: kept(4, 0)},
		},
		"one that began before the last step restarts": {
			in:   Input{Current: 2, Target: ptr.To[int64](4), Window: ago(4, 600), LastApplied: noon.Add(-130 * time.Second)},
			want: Verdict{Reason: ReasonWaiting, Target: 4, Window: kept(4, 0)},
		},
		"it begins with the next whole second": {
			in:   Input{Current: 2, Target: ptr.To[int64](4), Now: noon.Add(time.Nanosecond)},
			want: Verdict{Reason: ReasonWaiting, Target: 4, Window: &Window{4, noon.Add(time.Second), noon.Add(time.Nanosecond)}},
		},

		"a step counts from the next whole second": {
			in:   Input{Current: 2, Target: ptr.To[int64](4), Window: ago(4, 600), Now: noon.Add(time.Nanosecond)},
			want: Verdict{Reason: ReasonApply, Target: 4, Value: 3, At: noon.Add(time.Second)},
		},
		"after a step nothing happens": {
			in:   Input{Current: 2, Target: ptr.To[int64](4), Window: ago(4, 600), LastApplied: noon.Add(-119 * time.Second)},
			want: Verdict{Reason: ReasonCoolingDown, Target: 4},
		},
		"until the cooldown is over: then a window begins": {
			in:   Input{Current: 2, Target: ptr.To[int64](4), LastApplied: noon.Add(-120 * time.Second)},
			want: Verdict{Reason: ReasonWaiting, Target: 4, Window: kept(4, 0)},
		},
		"a step that lies ahead does not stop everything": {
			in:   Input{Current: 2, Target: ptr.To[int64](4), Window: ago(4, 180), LastApplied: noon.Add(time.Hour)},
			want: Verdict{Reason: ReasonApply, Target: 4, Value: 3, At: noon},
		},

		"no recommendation changes nothing":       {in: Input{Current: 9}, want: Verdict{Reason: ReasonNoData}},
		"nor does a recommendation of 0":          {in: Input{Current: 9, Target: ptr.To[int64](0)}, want: Verdict{Reason: ReasonNoData}},
		"one measurement that failed is not many": {in: Input{Current: 2, Window: ago(4, 100)}, want: Verdict{Reason: ReasonNoData, Window: ago(4, 100)}},
		"after many that failed the window is gone": {
			in: Input{Current: 2, Window: &Window{4, noon.Add(-time.Hour), noon.Add(-151 * time.Second)}}, want: Verdict{Reason: ReasonNoData},
		},

		"what is there already":                {in: Input{Current: 4, Target: ptr.To[int64](4), Window: ago(4, 600)}, want: Verdict{Reason: ReasonWithinTolerance, Target: 4}},
		"a tenth more":                         {in: Input{Current: 10, Target: ptr.To[int64](11), Window: ago(11, 600)}, want: Verdict{Reason: ReasonWithinTolerance, Target: 11}},
		"a tenth less":                         {in: Input{Current: 10, Target: ptr.To[int64](9), Window: ago(9, 600)}, want: Verdict{Reason: ReasonWithinTolerance, Target: 9}},
		"more than a tenth":                    {in: Input{Current: 9, Target: ptr.To[int64](10), Window: ago(10, 600)}, want: Verdict{Reason: ReasonApply, Target: 10, Value: 10, At: noon}},
		"a tenth, but it is above the maximum": {in: Input{Current: 10, High: 9, Target: ptr.To[int64](9), Window: ago(9, 600)}, want: Verdict{Reason: ReasonApply, Target: 9, Value: 9, At: noon}},

		"at most 30 % up":              {in: Input{Current: 10, Target: ptr.To[int64](20), Window: ago(20, 600)}, want: Verdict{Reason: ReasonApply, Target: 20, Value: 13, At: noon}},
		"at most 30 % down":            {in: Input{Current: 10, Target: ptr.To[int64](1), Window: ago(1, 600)}, want: Verdict{Reason: ReasonApply, Target: 1, Value: 7, At: noon}},
		"rounded down":                 {in: Input{Current: 6, Target: ptr.To[int64](20), Window: ago(20, 600)}, want: Verdict{Reason: ReasonApply, Target: 20, Value: 7, At: noon}},
		"but one is always possible":   {in: Input{Current: 1, Target: ptr.To[int64](20), Window: ago(20, 600)}, want: Verdict{Reason: ReasonApply, Target: 20, Value: 2, At: noon}},
		"also from 0":                  {in: Input{Current: 0, Target: ptr.To[int64](3), Window: ago(3, 600)}, want: Verdict{Reason: ReasonApply, Target: 3, Value: 1, At: noon}},
		"one down is possible as well": {in: Input{Current: 2, Target: ptr.To[int64](1), Window: ago(1, 600)}, want: Verdict{Reason: ReasonApply, Target: 1, Value: 1, At: noon}},

		"no more than MaxReplicas":                   {in: Input{Current: 19, Target: ptr.To[int64](40), Window: ago(20, 600)}, settings: func(s *Settings) { s.TolerancePercent = 0 }, want: Verdict{Reason: ReasonApply, Target: 20, Value: 20, At: noon}},
		"two targets above it are one":               {in: Input{Current: 10, Target: ptr.To[int64](41), Window: ago(20, 100)}, want: Verdict{Reason: ReasonWaiting, Target: 20, Window: kept(20, 100)}},
		"no more than the function's maxScale":       {in: Input{Current: 2, High: 3, Target: ptr.To[int64](9), Window: ago(3, 600)}, want: Verdict{Reason: ReasonApply, Target: 3, Value: 3, At: noon}},
		"no fewer than the function's minScale":      {in: Input{Current: 4, Low: 3, Target: ptr.To[int64](1), Window: ago(3, 600)}, want: Verdict{Reason: ReasonApply, Target: 3, Value: 3, At: noon}},
		"minScale goes before MaxReplicas":           {in: Input{Current: 30, Low: 30, Target: ptr.To[int64](1), Window: ago(30, 600)}, want: Verdict{Reason: ReasonWithinTolerance, Target: 30}},
		"somebody set more than MaxReplicas, needed": {in: Input{Current: 30, Target: ptr.To[int64](25), Window: ago(20, 600)}, want: Verdict{Reason: ReasonAboveMaximum, Target: 20}},
		"somebody set more, not needed":              {in: Input{Current: 30, Target: ptr.To[int64](5), Window: ago(5, 600)}, want: Verdict{Reason: ReasonApply, Target: 5, Value: 21, At: noon}},
		"more than the function's maxScale, needed":  {in: Input{Current: 12, High: 10, Target: ptr.To[int64](15), Window: ago(10, 600)}, want: Verdict{Reason: ReasonApply, Target: 10, Value: 10, At: noon}},

		"CR-25: minReplicas is not lowered": {in: Input{Current: 4, RaiseOnly: true, Target: ptr.To[int64](1), Window: ago(1, 600)}, want: Verdict{Reason: ReasonRaiseOnly, Target: 1}},
		"CR-25: it is raised":               {in: Input{Current: 4, RaiseOnly: true, Target: ptr.To[int64](5), Window: ago(5, 600)}, want: Verdict{Reason: ReasonApply, Target: 5, Value: 5, At: noon}},
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
				c.in.Mode = enforce
			}
			var before Window
			if c.in.Window != nil {
				before = *c.in.Window
			}
			assert.Equal(t, c.want, Step(c.in, settings))
			if c.in.Window != nil {
				assert.Equal(t, before, *c.in.Window, "what was given stays")
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"strconv"
)

// The size of a picture, and of the space for its axes.
const (
	width, height            = 900.0, 280.0
	left, right, top, bottom = 64.0, 16.0, 28.0, 44.0
	// mostTicks is of an axis.
	mostTicks = 8
)

// axis maps values from 0 to pixels.
type axis struct {
	// most is the value at the end, more than 0.
	most     float64
	from, to float64
	step     float64
}

// at is the pixel of a value. What is no number is at 0.
func (a *axis) at(v float64) float64 {
	if math.IsNaN(v) {
		v = 0
	}
	return a.from + (a.to-a.from)*min(max(v/a.most, 0), 1)
}

// ticks are the values with a line and a label.
func (a *axis) ticks() (list []float64) {
	for i := range mostTicks + 1 {
		if v := float64(i) * a.step; v <= a.most*(1+1e-9) {
			list = append(list, v)
		}
	}
	return list
}

// whole is an axis of whole numbers to above a greatest one, so that a line at that number is no part of the frame.
func whole(most int, from, to float64) axis {
	return numbers(max(float64(most)*1.02, mostTicks/2), from, to)
}

// numbers is an axis of numbers up to a greatest one.
func numbers(most, from, to float64) axis {
	if !(most > 0) || !finite(most) {
		most = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(most/mostTicks)))
	for _, factor := range []float64{1, 2, 5, 10, 20} {
		if most/(step*factor) <= mostTicks-1 {
			step *= factor
			break
		}
	}
	return axis{most: math.Ceil(most/step-1e-9) * step, from: from, to: to, step: step}
}

// spans are the steps of an axis of time, in seconds.
var spans = []float64{
	1, 5, 10, 30, 60, 300, 600, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600,
	86400, 2 * 86400, 7 * 86400, 14 * 86400, 30 * 86400, 60 * 86400,
}

// times is an axis of time. It ends where the data do.
func times(seconds, from, to float64) axis {
	if !(seconds > 0) || !finite(seconds) {
		seconds = 1
	}
	step := seconds / mostTicks
	for _, s := range spans {
		if seconds/s <= mostTicks {
			step = s
			break
		}
	}
	return axis{most: seconds, from: from, to: to, step: step}
}

// clock is a time since the start, in the largest unit in which it is whole.
func clock(seconds float64) string {
	for _, unit := range []struct {
		seconds float64
		name    string
	}{{86400, "d"}, {3600, "h"}, {60, "min"}} {
		if seconds != 0 && math.Mod(seconds, unit.seconds) == 0 {
			return strconv.FormatFloat(seconds/unit.seconds, 'f', -1, 64) + " " + unit.name
		}
	}
	return strconv.FormatFloat(math.Round(seconds*10)/10, 'f', -1, 64) + " s"
}

// since is a time since the start in hours, minutes and seconds.
func since(seconds float64) string {
	s := int64(min(max(seconds, 0), math.MaxInt32))
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// label is a number at an axis.
func label(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

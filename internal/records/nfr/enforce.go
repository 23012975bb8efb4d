// SPDX-License-Identifier: Apache-2.0

package nfr

import (
	"time"

	"berth.dev/berth/apis/v1alpha1"
)

// Settings bound what enforcement does.
type Settings struct {
	// Stability is how long a recommendation must stay the same before it is applied.
	Stability time.Duration
	// Cooldown is how long nothing is applied, and no window begins, after something was.
	Cooldown time.Duration
	// Interval is the time between measurements. No measurement for two and a half of it restarts the window.
	Interval time.Duration
	// MaxReplicas is the most that is set.
	MaxReplicas int64
	// MaxDeltaPercent is how much of the current value one step may be; a step of 1 is always possible.
	MaxDeltaPercent int64
	// TolerancePercent is how far from the current value a recommendation changes nothing.
	TolerancePercent int64
}

// DefaultSettings are the defaults of oprc-crm, and a tolerance.
var DefaultSettings = Settings{
	Stability: 180 * time.Second, Cooldown: 120 * time.Second, Interval: 60 * time.Second,
	MaxReplicas: 20, MaxDeltaPercent: 30, TolerancePercent: 10,
}

// Gap is how long there may be no measurement while a window stays.
func (s Settings) Gap() time.Duration { return s.Interval * 5 / 2 }

// Window is a target that waits until it is stable.
type Window struct {
	// Target is within the bounds.
	Target int64
	// Since is when it was first recommended, Seen when it was last. Since is a whole second, not before the moment itself: the
	// API keeps no more, and a window must not be shorter for having been stored.
	Since, Seen time.Time
}

// Input is all that a decision about the replicas of one component depends on.
type Input struct {
	// Mode is the record's; empty is Observe.
	Mode v1alpha1.EnforcementMode
	// Current is how many replicas the spec has now: of the Deployment, the HPA's minReplicas, Knative's minScale.
	Current int64
	// Target is the recommendation of this measurement; nil if there is none, be it that nothing was measured or that it was 0.
	Target *int64
	// Window is what the decision before returned, nil if nothing.
	Window *Window
	// LastApplied is the time of the last step that was applied, zero if none was.
	LastApplied time.Time
	// Now is the time of the decision.
	Now time.Time
	// Low and High are the bounds of the function (minScale and maxScale, or the HPA's maxReplicas); 0 is none. Low goes
	// before all others.
	Low, High int64
	// RaiseOnly means that it is never lowered: the minReplicas of an HPA.
	RaiseOnly bool
}

// Reason is why a decision was made.
type Reason string

// Reasons of a Verdict.
const (
	ReasonOff             Reason = "Off"             // nothing is enforced: the mode is Off
	ReasonObserving       Reason = "Observing"       // nothing is enforced: the mode is Observe
	ReasonNoData          Reason = "NoData"          // there is no recommendation, and nothing changes without one
	ReasonWithinTolerance Reason = "WithinTolerance" // the recommendation is what is, or next to it
	ReasonAboveMaximum    Reason = "AboveMaximum"    // what is lies above MaxReplicas, and so does the recommendation
	ReasonRaiseOnly       Reason = "RaiseOnly"       // the recommendation is lower, and nothing is to be lowered
	ReasonCoolingDown     Reason = "CoolingDown"     // something was applied less than Cooldown ago
	ReasonWaiting         Reason = "Waiting"         // the recommendation is not stable for long enough
	ReasonApply           Reason = "Apply"           // Value is to be set now
)

// Verdict is a decision.
type Verdict struct {
	Reason Reason
	// Value is what to set, if Reason is ReasonApply: the target as far as the bounds let it.
	Value int64
	// Target is what the recommendation is within the bounds, 0 where Reason is why there is none.
	Target int64
	// Window is to be kept for the next decision; nil is none. When applying fails, keep the window of the Input.
	Window *Window
	// At is the time to keep as LastApplied once Value is set: a whole second, not before Now.
	At time.Time
}

// Step decides what becomes of a recommendation. A target must be recommended for Stability, without another one between and
// without a gap in the measurements, before a step towards it is made; then nothing happens for Cooldown, and after that a
// new window begins. Everything it remembers is in Input and Verdict, so that another process can decide next.
func Step(in Input, s Settings) Verdict {
	switch {
	case in.Mode == v1alpha1.EnforcementOff:
		return Verdict{Reason: ReasonOff}
	case in.Mode != v1alpha1.EnforcementEnforce:
		return Verdict{Reason: ReasonObserving}
	case in.Target == nil || *in.Target <= 0:
		return Verdict{Reason: ReasonNoData, Window: in.fresh(s)}
	}
	target := in.clamped(s)
	if reason := in.idle(target, s); reason != "" {
		return Verdict{Reason: reason, Target: target}
	}
	if in.cooling(s) {
		return Verdict{Reason: ReasonCoolingDown, Target: target}
	}
	w := in.window(target, s)
	if in.Now.Sub(w.Since) < s.Stability {
		return Verdict{Reason: ReasonWaiting, Target: target, Window: w}
	}
	return Verdict{Reason: ReasonApply, Target: target, Value: towards(in.Current, target, s.MaxDeltaPercent), At: wholeSecond(in.Now)}
}

// clamped is the recommendation within 1, MaxReplicas and the function's bounds.
func (in Input) clamped(s Settings) int64 {
	low, high := max(1, in.Low), max(1, s.MaxReplicas)
	if in.High > 0 {
		high = min(high, in.High)
	}
	return max(low, min(high, *in.Target))
}

// idle returns why a target needs no change, empty if it does.
func (in Input) idle(target int64, s Settings) Reason {
	switch away := max(target-in.Current, in.Current-target); {
	case away == 0 || away*100 <= in.Current*s.TolerancePercent && in.withinBounds():
		return ReasonWithinTolerance
	case target < in.Current && in.RaiseOnly:
		return ReasonRaiseOnly
	case target < in.Current && *in.Target > target && in.withinBounds():
		// More than the enforcer may set was set by someone, and is needed.
		return ReasonAboveMaximum
	}
	return ""
}

// withinBounds reports whether what is lies within the function's own bounds: what does not is repaired however small the way.
func (in Input) withinBounds() bool {
	return in.Current >= in.Low && (in.High <= 0 || in.Current <= in.High)
}

// cooling reports whether something was applied less than Cooldown ago. A time that lies ahead is of a clock that was set back
// or of another machine's; it must not stop everything until then.
func (in Input) cooling(s Settings) bool {
	if in.LastApplied.IsZero() || in.LastApplied.After(in.Now.Add(time.Second)) {
		return false
	}
	return in.Now.Before(in.LastApplied.Add(s.Cooldown))
}

// window is the one that the target waits in: the present one while it is for the same target, else a new one.
func (in Input) window(target int64, s Settings) *Window {
	if w := in.fresh(s); w != nil && w.Target == target {
		w.Seen = in.Now
		return w
	}
	return &Window{Target: target, Since: wholeSecond(in.Now), Seen: in.Now}
}

// fresh is a copy of the window, nil if the last measurement that confirmed it is too long ago, if it lies ahead, or if
// something was applied since it began.
func (in Input) fresh(s Settings) *Window {
	w := in.Window
	ahead := in.Now.Add(time.Second)
	if w == nil || w.Since.After(ahead) || w.Seen.After(ahead) || in.Now.Sub(w.Seen) > s.Gap() ||
		w.Since.Before(in.LastApplied) && !in.LastApplied.After(ahead) {
		return nil
	}
	kept := *w
	return &kept
}

// towards is one step from a value to a target: at most percent of the value, rounded down, but 1 at least.
func towards(current, target, percent int64) int64 {
	most := max(1, current*percent/100)
	return max(current-most, min(current+most, target))
}

// wholeSecond rounds up.
func wholeSecond(t time.Time) time.Time { return t.Add(time.Second - 1).Truncate(time.Second) }

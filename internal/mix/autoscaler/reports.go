// SPDX-License-Identifier: Apache-2.0

package autoscaler

import "time"

// Reports are the last ones of each autoscaler about a pod. The zero value has none. It is not safe for concurrent use.
type Reports struct {
	last map[string]last
}

// last is the last report of one autoscaler.
type last struct {
	Observation
	// seen is when it came, by the clock of this process.
	seen time.Time
	// failed is how many launches have failed, and failedAt when the last one of these was recorded.
	failed   int
	failedAt time.Time
}

// Add adds what was observed. It reports whether that is new: watches deliver events again, and in any order.
func (r *Reports) Add(o Observation, now time.Time) bool {
	l := r.last[o.Autoscaler]
	if o.At.Before(l.At) || o == l.Observation {
		return false
	}
	if o.Report == LaunchFailed && o.At.After(l.failedAt) {
		l.failed, l.failedAt = l.failed+1, o.At
	}
	l.Observation, l.seen = o, now
	if r.last == nil {
		r.last = map[string]last{}
	}
	r.last[o.Autoscaler] = l
	return true
}

// End returns when no autoscaler is expected to launch a node for the pod any more, and the one that reported it last. ok is false if one
// is expected to, and where none has reported anything.
func (r *Reports) End() (at time.Time, by string, ok bool) {
	for name, l := range r.last {
		after, ends := l.EndsAfter(l.failed)
		if !ends {
			return time.Time{}, "", false
		}
		if end := l.seen.Add(after); end.After(at) || end.Equal(at) && name < by {
			at, by = end, name
		}
	}
	return at, by, by != ""
}

// SPDX-License-Identifier: Apache-2.0

package nfr

import (
	"time"

	"berth.dev/berth/apis/v1alpha1"
)

const (
	// UptimeWindow is the time that availability is measured over.
	UptimeWindow = time.Hour
	// leastObserved is how long must have been looked before availability is called met.
	leastObserved = 10 * time.Minute

	bucketLength = 5 * time.Minute
	bucketCount  = int64(UptimeWindow / bucketLength)
)

// Availability is how long something answered within the last UptimeWindow, as far as it was looked at.
type Availability struct{ Up, Down time.Duration }

// meets is Violated when more time is lost than the target leaves of a whole window, whatever was not looked at; Met when, of
// at least ten minutes that were looked at, no greater share is lost; else Unknown.
func (a Availability) meets(target float64) v1alpha1.Compliance {
	may := 1 - target
	switch {
	case exceeds(float64(a.Down), may*float64(UptimeWindow)):
		return v1alpha1.ComplianceViolated
	case a.Up+a.Down >= leastObserved && !exceeds(float64(a.Down), may*float64(a.Up+a.Down)):
		return v1alpha1.ComplianceMet
	}
	return v1alpha1.ComplianceUnknown
}

// Uptime is the history of whether something answers: the last hour in parts of five minutes. Its zero value is that of
// something that never answered. It is a value of fixed size, to be kept in memory: after a restart the availability is
// Unknown until enough was seen again.
type Uptime struct {
	seen    time.Time
	up      bool
	buckets [bucketCount]struct {
		number   int64
		up, down time.Duration
	}
}

// Next returns the history with one more look. What the last look saw counts until this one, unless that is longer ago than
// gap: then no one looked. Nothing counts before something answered for the first time: what is being deployed is not yet
// unavailable. A component answers while one of its replicas is ready, or none is wanted; a class while all of its do.
func (u Uptime) Next(now time.Time, answers bool, gap time.Duration) Uptime {
	if u.seen.IsZero() && !answers {
		return u
	}
	if since := now.Sub(u.seen); !u.seen.IsZero() && since > 0 && since <= gap {
		number := bucketOf(now)
		b := &u.buckets[number%bucketCount]
		if b.number != number {
			b.number, b.up, b.down = number, 0, 0
		}
		if u.up {
			b.up += since
		} else {
			b.down += since
		}
	}
	u.seen, u.up = now, answers
	return u
}

// Availability sums up the last UptimeWindow.
func (u Uptime) Availability(now time.Time) Availability {
	var a Availability
	for _, b := range u.buckets {
		if age := bucketOf(now) - b.number; age >= 0 && age < bucketCount {
			a.Up += b.up
			a.Down += b.down
		}
	}
	return a
}

func bucketOf(t time.Time) int64 { return max(0, t.Unix()) / int64(bucketLength/time.Second) }

// SPDX-License-Identifier: Apache-2.0

package gatefailopen

import "time"

// sighting is what one read of the schedulers' lease saw. The zero value is a
// lease that is not there.
type sighting struct {
	holder string
	// renewed is only ever compared for equality: it is by the holder's clock.
	renewed time.Time
	// lasts is for how long the holder may lead without renewing.
	lasts time.Duration
}

// watch derives from sightings for how long no one has led, by the clock of this
// process alone: a time without a read does not count.
type watch struct {
	// patience is how long no one must have led.
	patience time.Duration
	// gap is the time between two reads that makes them two watches.
	gap time.Duration

	last sighting
	// since is when last was seen first, zero while nothing is known.
	since, read time.Time
}

// saw adds what was read.
func (w *watch) saw(s sighting, now time.Time) {
	same := s.holder == w.last.holder && s.renewed.Equal(w.last.renewed) && s.lasts == w.last.lasts
	if w.since.IsZero() || !same || now.Sub(w.read) > w.gap {
		w.last, w.since = s, now
	}
	w.read = now
}

// blind notes that a read failed. A scheduler that cannot reach the API
// server either is not gone: the watch starts again.
func (w *watch) blind() { w.since = time.Time{} }

// leaderless reports whether no one has led for long enough.
func (w *watch) leaderless(now time.Time) bool {
	if w.since.IsZero() {
		return false
	}
	enough := w.patience
	if w.last.holder != "" {
		enough = max(enough, w.last.lasts)
	}
	return now.Sub(w.since) >= enough
}

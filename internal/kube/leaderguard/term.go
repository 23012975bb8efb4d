// SPDX-License-Identifier: Apache-2.0

package leaderguard

import "time"

// Limits are what the fence needs of the configuration of leader election.
type Limits struct {
	// Lease is how long a lease is valid after its last renewal.
	Lease time.Duration
	// RenewDeadline is how long the leader tries to renew its lease. It is shorter than Lease.
	RenewDeadline time.Duration
}

// age is how old the last renewal of a leader that writes may be: past the renew deadline, so that leader election has
// its full time to renew, and half of what is then left of the lease for writes in flight and for clocks that differ.
func (l Limits) age() time.Duration { return l.RenewDeadline + (l.Lease-l.RenewDeadline)/2 }

// elapsed is the time that has passed by the clock that was ahead at each reading: a fence that shuts too early costs a
// restart. The monotonic clock stops while the machine is suspended; the wall clock can be set back.
type elapsed struct{ total, monotonic, wall time.Duration }

func (e *elapsed) read(monotonic, wall time.Duration) time.Duration {
	e.total += max(0, monotonic-e.monotonic, wall-e.wall)
	e.monotonic, e.wall = monotonic, wall
	return e.total
}

// term is the time in which a process leads. It begins with the first renewal and ends for good.
type term struct {
	limits Limits
	leads  bool
	// renewed is when the last successful renewal was sent. Other replicas count from a later moment, that of its arrival.
	renewed time.Duration
	// ran is when the process was last observed to run.
	ran  time.Duration
	over bool
}

// observe notes that the process runs. The term is over if the lease may have expired, or if the process did not run
// for longer than the renew deadline.
func (t *term) observe(now time.Duration) {
	if t.leads {
		t.over = t.over || now-t.renewed > t.limits.age() || now-t.ran > t.limits.RenewDeadline
	}
	t.ran = now
}

// renew notes that a renewal has succeeded. It does not continue a term that was over before: another replica may have
// led in between.
func (t *term) renew(sent, now time.Duration, limits Limits) {
	if !t.leads {
		*t = term{limits: limits, leads: true, renewed: sent, ran: sent}
	}
	t.observe(now)
	t.renewed = sent
}

// release notes that the lease is about to be given up.
func (t *term) release() { t.over = t.over || t.leads }

// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
)

// stoppable is a program that can be stopped, and continued.
type stoppable interface {
	program
	Pause()
	Resume()
}

// ShortStops stops a program again and again, each time for a while after which
// it runs for a moment, until something is true or the program has ended. It
// runs afterwards.
func (w *World) ShortStops(p stoppable, stop time.Duration, until func() bool) {
	w.T.Helper()
	const moment = 300 * time.Millisecond
	defer p.Resume()
	p.Pause()
	stopped, next := true, time.Now().Add(stop)
	w.Eventually("the short stops have their effect", func() (bool, string) {
		if runs, _ := Runs(p); runs && time.Now().After(next) {
			if stopped {
				p.Resume()
				next = time.Now().Add(moment)
			} else {
				p.Pause()
				next = time.Now().Add(stop)
			}
			stopped = !stopped
		}
		return until(), p.LogTail(3)
	})
}

// AcquiredAt returns when the holder of a lease acquired it.
func (w *World) AcquiredAt(lease string) time.Time {
	w.T.Helper()
	l := ReadIn(w, "berth-system", lease, &coordinationv1.Lease{})
	require.NotNil(w.T, l.Spec.AcquireTime)
	return l.Spec.AcquireTime.Time
}

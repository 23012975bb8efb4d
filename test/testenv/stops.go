// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		select {
		case <-p.Done():
			return until(), p.LogTail(3)
		default:
		}
		if time.Now().After(next) {
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
	l, err := w.Kube.CoordinationV1().Leases("berth-system").Get(w.Ctx, lease, metav1.GetOptions{})
	require.NoError(w.T, err)
	require.NotNil(w.T, l.Spec.AcquireTime)
	return l.Spec.AcquireTime.Time
}

// SPDX-License-Identifier: Apache-2.0

package podlogs

import (
	"cmp"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Position is how far a log was read. The zero value is its beginning.
type Position struct {
	// At is the time of the last line that was read, and seen is how many lines of that time were.
	At   time.Time
	seen int
}

// Note remembers that a line was read.
func (p *Position) Note(l Line) {
	switch {
	case l.At.IsZero(): // it cannot be found again
	case l.At.Equal(p.At):
		p.seen++
	default:
		p.At, p.seen = l.At, 1
	}
}

// Resume reads what comes after the position from a log that was requested from At on.
func (p *Position) Resume(log io.Reader) *Reader {
	r := NewReader(log, p.At)
	r.skip = p.seen
	return r
}

// Started is the id of the container that ran last, "" if none has run yet, and whether it runs. A pod's container is another
// one after each restart.
func Started(s *corev1.ContainerStatus) (id string, running bool) {
	// Until the runtime has given an id, the count of restarts identifies the container.
	switch {
	case s.State.Running != nil, s.State.Terminated != nil:
		return cmp.Or(s.ContainerID, fmt.Sprintf("restart %d", s.RestartCount)), s.State.Running != nil
	case s.LastTerminationState.Terminated != nil:
		return cmp.Or(s.LastTerminationState.Terminated.ContainerID, fmt.Sprintf("restart %d", s.RestartCount-1)), false
	}
	return "", false
}

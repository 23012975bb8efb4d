// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/go-logr/logr"

	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/overview"
)

// source reads from informers what users with the same rights may list. One goroutine reads.
type source struct {
	objects   *objects
	settings  *overview.Settings
	namespace string
	granted   map[listing]bool
	log       logr.Logger

	// of and version are the informers of last, and what they had.
	of      *informers
	version uint64
	last    *overview.Reading
}

// Read implements console.Source. It returns the last reading while nothing has changed.
func (s *source) Read(ctx context.Context) (r *overview.Reading, err error) {
	defer func() {
		// An object that nothing foresaw must end a reading, not the program.
		if p := recover(); p != nil {
			s.log.Error(nil, "A reading panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			r, err = nil, fmt.Errorf("internal error: %v", p)
		}
	}()
	from, err := s.objects.open()
	if err != nil {
		return nil, err
	}
	version := from.version.Load() // before the lists: what changes meanwhile is read again
	if s.last != nil && s.of == from && s.version == version {
		return s.last, nil
	}
	r, err = live.Read(ctx, &reader{objects: from, granted: s.granted}, s.settings, s.namespace)
	if err != nil {
		s.last = nil
		return nil, err
	}
	s.of, s.version, s.last = from, version, r
	return r, nil
}

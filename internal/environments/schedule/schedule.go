// SPDX-License-Identifier: Apache-2.0

// Package schedule decides when backups of databases are due, which are deleted, and whether the last one is too old.
package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"berth.dev/berth/apis/v1alpha1"
)

const (
	// grace is how long after the second missed time the last backup is too old by default.
	grace = time.Hour
	// keptFailures is how many backups that failed are kept.
	keptFailures = 3
)

// Schedule is the times of backups.
type Schedule struct {
	times    cron.Schedule
	location *time.Location
}

// Parse returns the times of a spec. The error names the field.
func Parse(spec *v1alpha1.DatabaseBackupScheduleSpec) (*Schedule, error) {
	location, err := time.LoadLocation(spec.TimeZone) // "" is UTC
	if err != nil || spec.TimeZone == "Local" {
		return nil, fmt.Errorf("spec.timeZone: %q is not the name of a time zone, such as Europe/Berlin", spec.TimeZone)
	}
	if strings.Contains(spec.Schedule, "TZ") { // the parser panics at "TZ="
		return nil, fmt.Errorf("spec.schedule: %q has a time zone: use spec.timeZone", spec.Schedule)
	}
	times, err := cron.ParseStandard(spec.Schedule)
	if err != nil {
		return nil, fmt.Errorf("spec.schedule: %q is not a schedule such as \"0 3 * * *\": %w", spec.Schedule, err)
	}
	return &Schedule{times, location}, nil
}

// After returns the first time after t, the zero time if there is none in five years.
func (s *Schedule) After(t time.Time) time.Time { return s.times.Next(t.In(s.location)) }

// Due returns the last time after since and not after now, the zero time if there is none. It takes few steps however long ago since
// is.
func (s *Schedule) Due(since, now time.Time) time.Time {
	passed := func(from time.Time) bool { next := s.After(from); return !next.IsZero() && !next.After(now) }
	if !passed(since) {
		return time.Time{}
	}
	// A time follows lo before now, and none follows hi.
	lo, hi := since, now
	for back := time.Minute; back < now.Sub(since); back *= 2 {
		if at := now.Add(-back); passed(at) {
			lo = at
			break
		}
		hi = now.Add(-back)
	}
	for hi.Sub(lo) > time.Second {
		if middle := lo.Add(hi.Sub(lo) / 2); passed(middle) {
			lo = middle
		} else {
			hi = middle
		}
	}
	return s.After(lo)
}

// TooOldAt returns when a backup that was started at a time is too old; the zero time is never. A maximum age of 0 is the time until
// one time of the schedule was missed and an hour has passed since the next one.
func (s *Schedule) TooOldAt(last time.Time, maxAge time.Duration) time.Time {
	if maxAge > 0 {
		return last.Add(maxAge)
	}
	next := s.After(last)
	if !next.IsZero() {
		next = s.After(next)
	}
	if next.IsZero() {
		return next
	}
	return next.Add(grace)
}

// Sort sorts backups, the newest first.
func Sort(backups []v1alpha1.DatabaseBackup) {
	slices.SortFunc(backups, func(a, b v1alpha1.DatabaseBackup) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})
}

// Expired returns the names of the backups of a schedule, sorted by Sort, that are not kept: all but the newest keep that completed,
// and all but the newest three that failed.
func Expired(sorted []v1alpha1.DatabaseBackup, keep int) (names []string) {
	left := map[v1alpha1.DatabaseBackupPhase]int{
		v1alpha1.DatabaseBackupCompleted: keep, v1alpha1.DatabaseBackupFailed: keptFailures,
	}
	for i := range sorted {
		b := &sorted[i]
		if n, ended := left[b.Status.Phase]; !ended {
			continue
		} else if n == 0 {
			names = append(names, b.Name)
			continue
		}
		left[b.Status.Phase]--
	}
	return names
}

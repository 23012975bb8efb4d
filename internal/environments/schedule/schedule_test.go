// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
)

func parsed(t require.TestingT, times, zone string) *Schedule {
	s, err := Parse(&v1alpha1.DatabaseBackupScheduleSpec{Schedule: times, TimeZone: zone})
	require.NoError(t, err)
	return s
}

func TestAnInvalidScheduleIsNamed(t *testing.T) {
	for want, spec := range map[string]v1alpha1.DatabaseBackupScheduleSpec{
		`spec.schedule: "0 25 * * *" is not a schedule`: {Schedule: "0 25 * * *"},
		`spec.schedule: "daily" is not a schedule`:      {Schedule: "daily"},
		`spec.timeZone: "Mars" is not the name`:         {Schedule: "@daily", TimeZone: "Mars"},
		`spec.timeZone: "Local" is not the name`:        {Schedule: "@daily", TimeZone: "Local"},
	} {
		_, err := Parse(&spec)
		require.ErrorContains(t, err, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("0 3 * * *", "Europe/Berlin")
	f.Add("@every 1s", "")
	f.Fuzz(func(t *testing.T, times, zone string) {
		s, err := Parse(&v1alpha1.DatabaseBackupScheduleSpec{Schedule: times, TimeZone: zone})
		if err != nil {
			return
		}
		now := time.Unix(1_800_000_000, 0)
		if due := s.Due(now.Add(-time.Hour), now); !due.IsZero() && due.After(now) {
			t.Fatal(due)
		}
	})
}

func TestTheTimeZoneCounts(t *testing.T) {
	s := parsed(t, "0 3 * * *", "Europe/Berlin")
	assert.Equal(t, "2026-11-26T02:00:00Z", s.After(time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)).UTC().Format(time.RFC3339))
}

// The last time that was missed is made up for, and only that one.
func TestTheLastTimeIsDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SampledFrom([]string{"* * * * *", "*/7 * * * *", "0 3 * * *", "30 4 1 * *", "* * 1 1 *", "0 0 29 2 *"}).Draw(t, "times")
		s := parsed(t, times, rapid.SampledFrom([]string{"", "America/New_York"}).Draw(t, "zone"))
		now := time.Unix(rapid.Int64Range(1_700_000_000, 1_900_000_000).Draw(t, "now"), 0)
		since := now.Add(-time.Duration(rapid.Int64Range(0, 400*24*3600).Draw(t, "since")) * time.Second)
		due := s.Due(since, now)
		if due.IsZero() {
			require.True(t, s.After(since).After(now))
			return
		}
		require.True(t, due.After(since))
		require.False(t, due.After(now))
		require.True(t, s.After(due).After(now), "a later time was due")
		require.Equal(t, due, s.After(due.Add(-time.Second)), "it is a time of the schedule")
	})
}

func TestWhenABackupIsTooOld(t *testing.T) {
	last := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)
	s := parsed(t, "0 3 * * *", "")
	assert.Equal(t, time.Date(2026, 11, 28, 4, 0, 0, 0, time.UTC), s.TooOldAt(last, 0).UTC(), "one day was missed, and the next")
	assert.Equal(t, last.Add(2*time.Hour), s.TooOldAt(last, 2*time.Hour))
	assert.True(t, parsed(t, "0 0 30 2 *", "").TooOldAt(last, 0).IsZero(), "there is no such day")
}

func TestTheOldestAreDeleted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, keep := rapid.IntRange(0, 30).Draw(t, "n"), rapid.IntRange(1, 10).Draw(t, "keep")
		phases := []v1alpha1.DatabaseBackupPhase{"", v1alpha1.DatabaseBackupPending, v1alpha1.DatabaseBackupRunning, v1alpha1.DatabaseBackupCompleted, v1alpha1.DatabaseBackupFailed}
		var all []v1alpha1.DatabaseBackup
		for i := range n {
			b := v1alpha1.DatabaseBackup{}
			b.Name, b.CreationTimestamp = fmt.Sprint("b", i), metav1.Unix(rapid.Int64Range(0, 20).Draw(t, "created"), 0)
			b.Status.Phase = rapid.SampledFrom(phases).Draw(t, "phase")
			all = append(all, b)
		}
		Sort(all)
		expired := map[string]bool{}
		for _, name := range Expired(all, keep) {
			expired[name] = true
		}
		kept := map[v1alpha1.DatabaseBackupPhase]int{}
		gone := map[v1alpha1.DatabaseBackupPhase]bool{}
		for _, b := range all {
			if expired[b.Name] {
				require.True(t, b.Status.Phase.Ended())
				gone[b.Status.Phase] = true
				continue
			}
			require.False(t, gone[b.Status.Phase], "an older one is kept")
			kept[b.Status.Phase]++
		}
		require.LessOrEqual(t, kept[v1alpha1.DatabaseBackupCompleted], keep)
		require.LessOrEqual(t, kept[v1alpha1.DatabaseBackupFailed], keptFailures)
		if gone[v1alpha1.DatabaseBackupCompleted] {
			require.Equal(t, keep, kept[v1alpha1.DatabaseBackupCompleted])
		}
	})
}

// However long the controller was down, the answer takes few steps.
func BenchmarkDueAfterAYear(b *testing.B) {
	s := parsed(b, "* * * * *", "Europe/Berlin")
	now := time.Unix(1_800_000_000, 0)
	for b.Loop() {
		s.Due(now.Add(-365*24*time.Hour), now)
	}
}

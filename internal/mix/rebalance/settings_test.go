// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/internal/mix/governing"
)

func TestSettingsTakeTheWindowOfAnnotations(t *testing.T) {
	defaults := Settings{Mode: Evict, MaxConcurrent: 1}
	annotated := func(schedule, duration string) *governing.Mix {
		return &governing.Mix{Window: &governing.Window{Schedule: schedule, Duration: duration, Annotations: "a and b"}}
	}
	s, err := defaults.For(annotated("0 2 * * *", "4h"), nil)
	require.NoError(t, err)
	assert.Equal(t, Evict, s.Mode)
	day := time.Date(2026, time.November, 26, 0, 0, 0, 0, time.UTC)
	for hour, want := range map[int]bool{1: false, 2: true, 5: true, 6: false} {
		open, _ := s.Windows.Open(day.Add(time.Duration(hour) * time.Hour))
		assert.Equal(t, want, open, hour)
	}

	s, err = defaults.For(&governing.Mix{}, nil)
	require.NoError(t, err)
	assert.Equal(t, defaults, s)

	for name, c := range map[string]struct{ schedule, duration, problem string }{
		"no duration":     {"0 2 * * *", "", `a and b: duration: "" is not a duration such as 2h`},
		"no schedule":     {"", "4h", `a and b: schedule: "": `},
		"a second field":  {"0 0 2 * * *", "4h", `a and b: schedule: "0 0 2 * * *": `},
		"another zone":    {"TZ=Asia/Tokyo 0 2 * * *", "4h", `a and b: schedule: "TZ=Asia/Tokyo 0 2 * * *": a schedule has no zone`},
		"a short window":  {"0 2 * * *", "1s", "a and b: duration: 1s is not between 1m and 168h"},
		"a truncated one": {"0 2 * * *", "4h…", `a and b: duration: "4h…" is not`},
	} {
		_, err := defaults.For(annotated(c.schedule, c.duration), nil)
		require.ErrorContains(t, err, c.problem, name)
	}
}

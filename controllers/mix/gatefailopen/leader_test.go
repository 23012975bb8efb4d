// SPDX-License-Identifier: Apache-2.0

package gatefailopen

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var epoch = time.Unix(1_700_000_000, 0)

// at is so many seconds after the beginning.
func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

// of is a lease that a holder renewed at a time of its own clock.
func of(holder string, renewed int) sighting {
	return sighting{holder: holder, renewed: time.Unix(int64(renewed), 0), lasts: 15 * time.Second}
}

func TestTheWatchMeasuresHowLongNoSchedulerLeads(t *testing.T) {
	type look struct {
		at  int
		saw sighting
	}
	missing, failed := sighting{}, sighting{holder: "the look failed"}
	// looks are after 0 s, 20 s and so on.
	looks := func(saw ...sighting) (list []look) {
		for i, s := range saw {
			list = append(list, look{20 * i, s})
		}
		return list
	}
	a1, ahead := of("a", 1), of("a", 2_000_000_000)
	tests := map[string]struct {
		looks []look
		want  bool
	}{
		"a lease that is renewed":                    {looks(a1, of("a", 2), of("a", 3), of("a", 4)), false},
		"one that is not":                            {looks(a1, a1, a1, a1), true},
		"one that is not for just too short a time":  {append(looks(a1, a1, a1), look{59, a1}), false},
		"one whose holder's clock is ahead by years": {looks(ahead, ahead, ahead, ahead), true},
		"a clock that is set back is a renewal":      {looks(of("a", 9), of("a", 9), of("a", 3), of("a", 3)), false},
		"another holder at the same time":            {looks(a1, a1, of("b", 1), of("b", 1)), false},
		"no lease":                                   {looks(missing, missing, missing, missing), true},
		"a lease without a holder":                   {looks(of("", 1), of("", 1), of("", 1), of("", 1)), true},
		"a lease that is acquired in time":           {looks(missing, missing, missing, a1), false},
		"a look that failed":                         {looks(missing, missing, failed, missing), false},
		"the last look failed":                       {looks(missing, missing, missing, failed), false},
		"a process that slept":                       {append(looks(missing, missing), look{60, missing}), false},
		"nothing was looked at":                      {nil, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := watch{patience: time.Minute, gap: 25 * time.Second}
			now := 0
			for _, l := range tc.looks {
				if now = l.at; l.saw == failed {
					w.blind()
				} else {
					w.saw(l.saw, at(l.at))
				}
			}
			assert.Equal(t, tc.want, w.leaderless(at(now)))
		})
	}
}

func TestAHolderKeepsItsLeaseForAsLongAsItLasts(t *testing.T) {
	w := watch{patience: 5 * time.Second, gap: time.Minute}
	w.saw(of("a", 1), at(0))
	assert.False(t, w.leaderless(at(14)), "it may lead without renewing")
	assert.True(t, w.leaderless(at(15)))
	w.saw(sighting{lasts: 15 * time.Second}, at(15))
	assert.False(t, w.leaderless(at(19)))
	assert.True(t, w.leaderless(at(20)), "it was given back")
}

// The watch reports that no one leads exactly if what it saw was the same at every
// look of an unbroken row that is long enough.
func TestTheWatchFollowsItsSightings(t *testing.T) {
	type look struct {
		at   time.Time
		saw  sighting
		seen bool
	}
	rapid.Check(t, func(t *rapid.T) {
		w := watch{patience: time.Duration(rapid.IntRange(1, 30).Draw(t, "patience")) * time.Second, gap: 10 * time.Second}
		var looks []look
		now := 0
		for range rapid.IntRange(0, 30).Draw(t, "looks") {
			now += rapid.SampledFrom([]int{0, 1, 1, 3, 10, 11}).Draw(t, "later")
			l := look{at: at(now), seen: rapid.IntRange(0, 9).Draw(t, "fails") > 0}
			if l.seen {
				l.saw = rapid.SampledFrom([]sighting{{}, {}, {}, of("a", 1), of("a", 1), of("a", 2), of("b", 2)}).Draw(t, "saw")
				w.saw(l.saw, l.at)
			} else {
				w.blind()
			}
			looks = append(looks, l)

			var row []look // back from the last
			for _, earlier := range slices.Backward(looks) {
				if !earlier.seen || len(row) > 0 && (earlier.saw != l.saw || row[len(row)-1].at.Sub(earlier.at) > w.gap) {
					break
				}
				row = append(row, earlier)
			}
			want := false
			if len(row) > 0 {
				enough := w.patience
				if l.saw.holder != "" {
					enough = max(enough, l.saw.lasts)
				}
				want = l.at.Sub(row[len(row)-1].at) >= enough
			}
			require.Equal(t, want, w.leaderless(l.at))
		}
	})
}

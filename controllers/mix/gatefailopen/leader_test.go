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

func TestWhoLeads(t *testing.T) {
	type look struct {
		at    int
		saw   sighting
		blind bool
	}
	var missing sighting
	tests := map[string]struct {
		looks []look
		want  bool
	}{
		"a lease that is renewed": {
			[]look{{0, of("a", 1), false}, {20, of("a", 2), false}, {40, of("a", 3), false}, {60, of("a", 4), false}}, false,
		},
		"one that is not": {
			[]look{{0, of("a", 1), false}, {20, of("a", 1), false}, {40, of("a", 1), false}, {60, of("a", 1), false}}, true,
		},
		"one that is not for just too short a time": {
			[]look{{0, of("a", 1), false}, {20, of("a", 1), false}, {40, of("a", 1), false}, {59, of("a", 1), false}}, false,
		},
		"one whose holder's clock is ahead by years": {
			[]look{{0, of("a", 2_000_000_000), false}, {20, of("a", 2_000_000_000), false}, {40, of("a", 2_000_000_000), false}, {60, of("a", 2_000_000_000), false}}, true,
		},
		"a clock that is set back is a renewal": {
			[]look{{0, of("a", 9), false}, {20, of("a", 9), false}, {40, of("a", 3), false}, {60, of("a", 3), false}}, false,
		},
		"another holder at the same time": {
			[]look{{0, of("a", 1), false}, {20, of("a", 1), false}, {40, of("b", 1), false}, {60, of("b", 1), false}}, false,
		},
		"no lease": {
			[]look{{0, missing, false}, {20, missing, false}, {40, missing, false}, {60, missing, false}}, true,
		},
		"a lease that nobody holds": {
			[]look{{0, of("", 1), false}, {20, of("", 1), false}, {40, of("", 1), false}, {60, of("", 1), false}}, true,
		},
		"a lease that somebody takes in time": {
			[]look{{0, missing, false}, {20, missing, false}, {40, missing, false}, {60, of("a", 1), false}}, false,
		},
		"a look that failed": {
			[]look{{0, missing, false}, {20, missing, false}, {40, missing, true}, {60, missing, false}}, false,
		},
		"the last look failed": {
			[]look{{0, missing, false}, {20, missing, false}, {40, missing, false}, {60, missing, true}}, false,
		},
		"a process that slept": {
			[]look{{0, missing, false}, {20, missing, false}, {60, missing, false}}, false,
		},
		"nothing was looked at": {nil, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := watch{patience: time.Minute, gap: 25 * time.Second}
			now := 0
			for _, l := range tc.looks {
				if now = l.at; l.blind {
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

// The watch says that no one leads exactly if what it saw was the same at every
// look of an unbroken row that is long enough.
func TestTheWatchIsWhatItsLooksSay(t *testing.T) {
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

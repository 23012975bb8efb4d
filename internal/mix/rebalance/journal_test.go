// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var journalNow = time.Unix(1_800_000_000, 0)

const journalBackoff = 30 * time.Minute

func TestWhatIsRecordedIsRead(t *testing.T) {
	name := rapid.StringMatching(`[a-z0-9]{1,20}`)
	rapid.Check(t, func(t *rapid.T) {
		var want []Record
		for i := range rapid.IntRange(0, 5).Draw(t, "records") {
			r := Record{
				Namespace: "ns", ID: fmt.Sprint("id", i), Kind: "CloneSet", Name: name.Draw(t, "name"), Mix: name.Draw(t, "mix"),
				Had: rapid.IntRange(0, maxReplicas).Draw(t, "had"), Failures: rapid.Int32Range(0, maxFailures).Draw(t, "failures"),
				RetryAt: journalNow.Unix() + rapid.Int64Range(-9, 1800).Draw(t, "retry"), Updated: journalNow.Unix() - 5,
			}
			for range rapid.IntRange(0, 3).Draw(t, "moves") {
				r.Moves = append(r.Moves, RecordedMove{UID: name.Draw(t, "uid"), Name: name.Draw(t, "pod"), Started: journalNow.Unix() - 7, To: "spot", Slot: 3, Newest: journalNow.Unix() - 9})
			}
			want = append(want, r)
		}
		text, err := EncodeJournal(want)
		require.NoError(t, err)
		got, err := DecodeJournal(text, journalNow, journalBackoff)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

func TestAJournalIsBoundedWhateverTenantsDo(t *testing.T) {
	long := strings.Repeat("x", 250)
	var all []Record
	for i := range 3000 {
		all = append(all, Record{Namespace: "crowd", ID: fmt.Sprint(i), Name: long, Revision: long, Had: 5, Updated: int64(i)})
	}
	quiet := Record{Namespace: "quiet", ID: "a", Failures: 3, Updated: 0}
	moving := Record{Namespace: "crowd", ID: "m", Moves: []RecordedMove{{UID: "u"}}}
	text, err := EncodeJournal(append(all, quiet, moving))
	require.NoError(t, err)
	assert.LessOrEqual(t, len(text), maxJournalBytes)
	got, err := DecodeJournal(text, journalNow, journalBackoff)
	require.NoError(t, err)
	assert.LessOrEqual(t, len(got), maxRecords)
	byID := map[string]bool{}
	for _, r := range got {
		byID[r.Namespace+"/"+r.ID] = true
	}
	assert.True(t, byID["quiet/a"], "another namespace's")
	assert.True(t, byID["crowd/m"], "a move is under way")
	assert.True(t, byID["crowd/2999"], "the newest")
	assert.False(t, byID["crowd/0"], "the oldest")
}

func TestAForgedJournalHoldsNothingForLong(t *testing.T) {
	forged := `[{"namespace":"a","id":"x","had":-5,"failures":2147483647,"retryAt":99999999999,"updated":99999999999,"moves":[{"uid":"u","started":99999999999,"slot":-1,"newest":99999999999,"wrong":-1}]},
		{"namespace":"a","id":"x","had":7},{"namespace":"","id":"y"},{"namespace":"a","id":""},{"namespace":"a","id":"` + strings.Repeat("z", 600) + `"},
		{"namespace":"a","id":"m","moves":[{"uid":""}]}]`
	got, err := DecodeJournal(forged, journalNow, journalBackoff)
	require.NoError(t, err)
	now := journalNow.Unix()
	assert.Equal(t, []Record{{
		Namespace: "a", ID: "x", Failures: maxFailures, RetryAt: now + 1800, Updated: now, Moves: []RecordedMove{{UID: "u", Started: now, Newest: now}},
	}}, got)
	for _, text := range []string{"{", `{"a":1}`, `[1]`, strings.Repeat("[", maxJournalBytes+1)} {
		_, err := DecodeJournal(text, journalNow, journalBackoff)
		require.Error(t, err)
	}
}

func FuzzDecodeJournal(f *testing.F) {
	f.Add(`[{"namespace":"a","id":"x","had":3,"moves":[{"uid":"u","started":1}]}]`)
	f.Add(`[{"retryAt":9223372036854775807,"updated":-9223372036854775808}]`)
	f.Fuzz(func(t *testing.T, text string) {
		records, _ := DecodeJournal(text, journalNow, journalBackoff)
		for _, r := range records {
			require.LessOrEqual(t, time.Unix(r.RetryAt, 0).Sub(journalNow), journalBackoff)
			require.LessOrEqual(t, len(r.Moves), maxMoves)
			require.GreaterOrEqual(t, r.Had, 0)
		}
	})
}

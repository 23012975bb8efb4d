// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
)

// Bounds of what is recorded. They keep the object far below the limit of the API server, whatever tenants do.
const (
	maxRecords      = 1000
	maxMoves        = 100
	maxJournalBytes = 512 << 10
	maxName         = 253
	maxUID          = 128
	maxID           = 512 // that of a role of a CapacityMix has both names
	maxType         = 16
	maxFailures     = 1000
	maxReplicas     = 1 << 20
)

// Record is what a new leader must have of a workload so that it disrupts it no more than this one would: the moves that are
// under way, how many pods must be back, and when the next move may be tried.
type Record struct {
	Namespace string `json:"namespace"`
	// ID is that of the group: the UID of the pods' controller.
	ID       string         `json:"id"`
	Kind     string         `json:"kind,omitempty"`
	Name     string         `json:"name,omitempty"`
	Revision string         `json:"revision,omitempty"`
	Mix      string         `json:"mix,omitempty"`
	Had      int            `json:"had,omitempty"`
	Failures int32          `json:"failures,omitempty"`
	RetryAt  int64          `json:"retryAt,omitempty"` // seconds since 1970, as all times here
	Moves    []RecordedMove `json:"moves,omitempty"`
	// Updated is when it was changed last.
	Updated int64 `json:"updated"`
}

// RecordedMove is a replica that is evicted, or may have been.
type RecordedMove struct {
	UID     string `json:"uid"`
	Name    string `json:"name"`
	Started int64  `json:"started"`
	// To is the type that it was moved to, and Slot the one that its replacement was to claim. Newest is when the newest of
	// the replicas was created that there were then.
	To     string `json:"to,omitempty"`
	Slot   int    `json:"slot,omitempty"`
	Newest int64  `json:"newest,omitempty"`
	// Unit and Size are those of a unit of more than one pod.
	Unit string `json:"unit,omitempty"`
	Size int    `json:"size,omitempty"`
	// Released is that of a Move.
	Released bool `json:"released,omitempty"`
	// Requested is that of a Move.
	Requested bool `json:"requested,omitempty"`
}

// RecordOf is what is to be recorded of a workload.
func RecordOf(e *Entry, now time.Time) Record {
	w := e.Group.Workload
	r := Record{
		Namespace: e.Group.Key.Namespace, ID: e.Group.Key.ID, Kind: w.Kind, Name: w.Name, Revision: w.Revision, Mix: e.Mix,
		Had: e.Had, Failures: e.Failures, Updated: now.Unix(),
	}
	if !e.RetryAt.IsZero() {
		r.RetryAt = e.RetryAt.Unix()
	}
	for _, m := range e.Moves {
		r.Moves = append(r.Moves, RecordedMove{
			UID: string(m.UID), Name: m.Name, Started: m.Started.Unix(), To: m.Target.String(), Slot: m.Slot, Newest: m.Newest,
			Unit: m.Unit, Size: m.Size, Released: m.Released, Requested: m.Requested,
		})
	}
	return r
}

// Recall adds to an entry what is recorded of its workload. Whether the API
// server carried out what was recorded is not known. Of a request to evict that
// is no reason to doubt: its pod runs for as long as its responders take.
func Recall(e Entry, r Record, now time.Time) Entry {
	e.Had, e.Failures = max(e.Had, r.Had), max(e.Failures, r.Failures)
	if at := time.Unix(r.RetryAt, 0); r.RetryAt > 0 && at.After(e.RetryAt) {
		e.RetryAt = at
	}
	known := Moved(e.Moves)
	for _, m := range r.Moves {
		if uid := types.UID(m.UID); !known[uid] {
			target, _ := capacity.ParseType(m.To) // Unknown for what an older release recorded
			move := Move{
				UID: uid, Namespace: r.Namespace, Name: m.Name, Started: time.Unix(m.Started, 0), Target: target, Slot: m.Slot,
				Newest: m.Newest, Unit: m.Unit, Size: m.Size, Released: m.Released, Requested: m.Requested,
			}
			if !m.Requested {
				move.DoubtUntil = now.Add(Unseen)
			}
			e.Moves = append(e.Moves, move)
		}
	}
	return e
}

// Worth reports whether a record has anything to keep.
func (r *Record) Worth() bool { return r.Had > 0 || r.Failures > 0 || len(r.Moves) > 0 }

// Same reports whether two records are equal but for the time of writing.
func (r *Record) Same(o *Record) bool {
	return r.Kind == o.Kind && r.Name == o.Name && r.Revision == o.Revision && r.Mix == o.Mix && r.Had == o.Had &&
		r.Failures == o.Failures && r.RetryAt == o.RetryAt && slices.Equal(r.Moves, o.Moves)
}

// EncodeJournal returns the text of some records. Where there are too many, the oldest are left out: those without a move
// first, and of the namespace that has the most, so that one tenant's do not push out those of the others.
func EncodeJournal(records []Record) (string, error) {
	records = slices.Clone(records)
	slices.SortFunc(records, func(a, b Record) int { return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ID, b.ID)) })
	for {
		text, err := json.Marshal(records)
		if err != nil {
			return "", fmt.Errorf("write the journal: %w", err)
		}
		over := len(records) - maxRecords
		if len(text) > maxJournalBytes {
			over = max(over, len(records)/8, 1)
		}
		if over <= 0 {
			return string(text), nil
		}
		records = leaveOut(records, over)
	}
}

func leaveOut(records []Record, n int) []Record {
	return leaveOutFullest(records, n, func(r *Record) string { return r.Namespace }, func(a, b *Record, fuller int) int {
		return cmp.Or(cmp.Compare(min(len(a.Moves), 1), min(len(b.Moves), 1)), fuller, cmp.Compare(a.Updated, b.Updated))
	})
}

// leaveOutFullest leaves n records out, those first that compare as less. fuller is less than 0 where the namespace of a has more records
// than that of b.
func leaveOutFullest[R any](all []R, n int, namespace func(*R) string, compare func(a, b *R, fuller int) int) []R {
	count := map[string]int{}
	for i := range all {
		count[namespace(&all[i])]++
	}
	for range min(n, len(all)) {
		worst := 0
		for i := range all {
			a, b := &all[i], &all[worst]
			if compare(a, b, cmp.Compare(count[namespace(b)], count[namespace(a)])) < 0 {
				worst = i
			}
		}
		count[namespace(&all[worst])]--
		all = slices.Delete(all, worst, worst+1)
	}
	return all
}

// DecodeJournal reads records. Whoever may write the object may have written anything: what cannot be is left out, and no
// number or time holds a workload for longer than this controller would.
func DecodeJournal(text string, now time.Time, maxBackoff time.Duration) ([]Record, error) {
	if len(text) > maxJournalBytes {
		return nil, fmt.Errorf("read the journal: it has %d bytes, and at most %d are read", len(text), maxJournalBytes)
	}
	if text == "" {
		return nil, nil
	}
	var all []Record
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	var records []Record
	seen := map[[2]string]bool{}
	for _, r := range all[:min(len(all), maxRecords)] {
		key := [2]string{r.Namespace, r.ID}
		if !r.possible() || seen[key] {
			continue
		}
		seen[key] = true
		r.Had, r.Failures = min(max(r.Had, 0), maxReplicas), min(max(r.Failures, 0), maxFailures)
		r.RetryAt = Clamp(time.Unix(r.RetryAt, 0), now.Add(maxBackoff)).Unix()
		r.Updated = min(r.Updated, now.Unix())
		for i := range r.Moves {
			m := &r.Moves[i]
			m.Started, m.Slot, m.Newest = min(m.Started, now.Unix()), min(max(m.Slot, 0), maxReplicas), min(m.Newest, now.Unix())
		}
		records = append(records, r)
	}
	return records, nil
}

// possible reports whether the names of a record can be those of objects.
func (r *Record) possible() bool {
	for _, name := range []string{r.Kind, r.Name, r.Revision, r.Mix} {
		if len(name) > maxName {
			return false
		}
	}
	return r.Namespace != "" && len(r.Namespace) <= maxName && r.ID != "" && len(r.ID) <= maxID && len(r.Moves) <= maxMoves &&
		!slices.ContainsFunc(r.Moves, func(m RecordedMove) bool { return !m.possible() })
}

func (m *RecordedMove) possible() bool {
	return m.UID != "" && len(m.UID) <= maxUID && len(m.Name) <= maxName && len(m.To) <= maxType &&
		len(m.Unit) <= maxName && m.Size >= 0 && m.Size <= maxUnit
}

// Clamp bounds a time that another process wrote: its clock may be wrong.
func Clamp(t, latest time.Time) time.Time {
	if t.After(latest) {
		return latest
	}
	return t
}

// ClampFailures bounds a count that another process wrote.
func ClampFailures(n int32) int32 { return min(max(n, 0), maxFailures) }

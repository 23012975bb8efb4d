// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"berth.dev/berth/internal/kube/display"
)

const (
	// paceWindow is the time in which a pace counts moves.
	paceWindow = time.Hour
	// paceHold is after how long a workload is evaluated again whose turn depends on others.
	paceHold = time.Minute
	// maxPaceBytes bounds what is recorded of the paces of mixes, and maxBegun how many moves of a minute.
	maxPaceBytes = 256 << 10
	maxBegun     = 10_000
	// maxMinutes is how many minutes the moves of a window can be of.
	maxMinutes = int(paceWindow/time.Minute) + 1
)

// Begun are the moves that began in the last hour, by minute, the earliest first. It is replaced rather than changed.
type Begun []MinuteOfMoves

// MinuteOfMoves is how many moves began in a minute.
type MinuteOfMoves struct {
	// Minute is that of the Unix time.
	Minute int64 `json:"m"`
	Moves  int   `json:"n"`
}

// ends is when none of the moves counts any more: each may have begun at the end of the minute.
func (m *MinuteOfMoves) ends() time.Time { return time.Unix((m.Minute+1)*60, 0).Add(paceWindow) }

// Since are those that still count.
func (b Begun) Since(now time.Time) Begun {
	return slices.DeleteFunc(slices.Clone(b), func(m MinuteOfMoves) bool { return !now.Before(m.ends()) })
}

// With counts one more move.
func (b Begun) With(now time.Time) Begun {
	next, minute := b.Since(now), now.Unix()/60
	for i := range next {
		if next[i].Minute == minute {
			next[i].Moves = min(next[i].Moves+1, maxBegun)
			return next
		}
	}
	next = append(next, MinuteOfMoves{Minute: minute, Moves: 1})
	slices.SortFunc(next, func(a, b MinuteOfMoves) int { return cmp.Compare(a.Minute, b.Minute) })
	return next
}

// count is how many moves still count.
func (b Begun) count(now time.Time) (n int) {
	for i := range b {
		if now.Before(b[i].ends()) {
			n += b[i].Moves
		}
	}
	return n
}

// Pace bounds how many moves begin within an hour.
type Pace struct {
	// Limit is the maximum, 0 for none.
	Limit int
	Begun Begun
	// Held are the moves that are spoken for: those of placeholders, and of namespaces that have their turn before.
	Held int
}

// Next returns when one more move may begin, zero for now.
func (p *Pace) Next(now time.Time) time.Time {
	if p.Limit <= 0 {
		return time.Time{}
	}
	over := p.Begun.count(now) + p.Held - p.Limit + 1 // so many have to end before
	if over <= 0 {
		return time.Time{}
	}
	for i := range p.Begun {
		if m := &p.Begun[i]; now.Before(m.ends()) {
			if over -= m.Moves; over <= 0 {
				return m.ends()
			}
		}
	}
	return now.Add(paceHold) // once those begin, or are given up, for which the places are held
}

// overPace bounds the moves of an hour. Moves that go slowly one after the other may still be too many for what they restart.
func overPace(s *subject) (v Verdict) {
	now := s.Cluster.Now
	for _, one := range []struct {
		pace   *Pace
		reason *Reason
		of     string
	}{
		{&s.History.Pace, ReasonPace, "this mix"},
		{&s.Cluster.Pace, ReasonClusterPace, "the cluster"},
	} {
		if at := one.pace.Next(now); !at.IsZero() {
			return one.reason.until(at, "%s of %s began within the last hour, and at most %d may; the next may begin at %s",
				display.Count(one.pace.Begun.count(now), "move"), one.of, one.pace.Limit, clockTime(at))
		}
	}
	return v
}

// PaceKey identifies what has a pace of its own: a mix, or a group without a CapacityMix.
type PaceKey struct{ Namespace, Name string }

// Paces are the moves that began in the last hour.
type Paces struct {
	Cluster Begun
	// Mixes are those of mixes with a pace.
	Mixes map[PaceKey]Begun
}

// recordedPaces is the text of Paces.
type recordedPaces struct {
	Cluster Begun          `json:"cluster,omitempty"`
	Mixes   []recordedPace `json:"mixes,omitempty"`
}

type recordedPace struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Begun     Begun  `json:"begun"`
}

// With counts one more move. That of a mix counts only if it has a pace: then it is not nil.
func (p *Paces) With(key *PaceKey, now time.Time) Paces {
	next := Paces{Cluster: p.Cluster.With(now), Mixes: map[PaceKey]Begun{}}
	for k, b := range p.Mixes {
		if still := b.Since(now); len(still) > 0 {
			next.Mixes[k] = still
		}
	}
	if key != nil {
		next.Mixes[*key] = next.Mixes[*key].With(now)
	}
	return next
}

// EncodePaces returns the text of paces. Where there are too many, those of the namespace with the most are left out, the ones whose
// last move is the longest ago first: one tenant's do not push out those of the others.
func EncodePaces(p *Paces, now time.Time) (string, error) {
	all := recordedPaces{Cluster: p.Cluster.Since(now)}
	for k, b := range p.Mixes {
		if still := b.Since(now); len(still) > 0 {
			all.Mixes = append(all.Mixes, recordedPace{Namespace: k.Namespace, Name: k.Name, Begun: still})
		}
	}
	slices.SortFunc(all.Mixes, func(a, b recordedPace) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for {
		text, err := json.Marshal(all)
		switch {
		case err != nil:
			return "", fmt.Errorf("write the paces: %w", err)
		case len(all.Cluster)+len(all.Mixes) == 0:
			return "", nil
		case len(text) <= maxPaceBytes:
			return string(text), nil
		}
		all.Mixes = leaveOutPaces(all.Mixes, len(all.Mixes)/8+1)
	}
}

func leaveOutPaces(all []recordedPace, n int) []recordedPace {
	last := func(r *recordedPace) int64 { return r.Begun[len(r.Begun)-1].Minute }
	return leaveOutFullest(all, n, func(r *recordedPace) string { return r.Namespace }, func(a, b *recordedPace, fuller int) int {
		return cmp.Or(fuller, cmp.Compare(last(a), last(b)))
	})
}

// DecodePaces reads paces. Whoever may write the object may have written anything: what cannot be is left out, and nothing counts for
// longer than an hour.
func DecodePaces(text string, now time.Time) (p Paces, err error) {
	p.Mixes = map[PaceKey]Begun{}
	if text == "" {
		return p, nil
	}
	if len(text) > maxPaceBytes {
		return p, fmt.Errorf("read the paces: they have %d bytes, and at most %d are read", len(text), maxPaceBytes)
	}
	var all recordedPaces
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return p, fmt.Errorf("read the paces: %w", err)
	}
	p.Cluster = all.Cluster.possible(now)
	for _, r := range all.Mixes {
		if r.Namespace == "" || len(r.Namespace) > maxName || r.Name == "" || len(r.Name) > maxID {
			continue
		}
		if b := r.Begun.possible(now); len(b) > 0 {
			p.Mixes[PaceKey{r.Namespace, r.Name}] = b
		}
	}
	return p, nil
}

// possible are the moves that can have begun: the clock of the writer may be wrong.
func (b Begun) possible(now time.Time) (out Begun) {
	seen := map[int64]int{}
	for _, m := range b.Since(now) {
		if m.Moves > 0 {
			minute := min(m.Minute, now.Unix()/60)
			seen[minute] = min(seen[minute]+min(m.Moves, maxBegun), maxBegun)
		}
	}
	for minute, n := range seen {
		out = append(out, MinuteOfMoves{Minute: minute, Moves: n})
	}
	slices.SortFunc(out, func(a, b MinuteOfMoves) int { return cmp.Compare(a.Minute, b.Minute) })
	return out[:min(len(out), maxMinutes)]
}

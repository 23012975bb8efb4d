// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"time"
)

// Values are what one run of a peer measured, by name. A name ends in its unit, such as cpu_us_per_pod.
type Values map[string]float64

// Peer is one of those that are compared.
type Peer struct {
	// Name is short; the report explains it: berth, P0, L1.
	Name string
	// Run measures once.
	Run func(ctx context.Context) (Values, error)
}

// Case is one question that is put to all of its peers.
type Case struct {
	// Name is unique in its suite, such as "basic/nodes=5000".
	Name string
	// At is the place of the case on the curves, such as nodes: 5000.
	At map[string]float64
	// Settings are those that all peers have in common, for the reader.
	Settings map[string]string
	Peers    []Peer
}

// Options are how a case is measured.
type Options struct {
	// Rounds in which every peer has its turn once.
	Rounds int
	// MaxForeign is how much of the machine's processors others may take in a
	// round before it is thrown away and repeated, from 0 to 1.
	MaxForeign float64
	// Repeats bounds how many rounds are thrown away before disturbed ones are kept, and marked.
	Repeats int
	// Log receives the progress.
	Log func(format string, args ...any)
}

// Round is one turn of every peer.
type Round struct {
	// Load is the load average of the last minute at its end.
	Load float64 `json:"load"`
	// Foreign is the share of the machine's processors that others took.
	Foreign float64 `json:"foreign"`
	// Disturbed rounds were kept because too many had been thrown away.
	Disturbed bool `json:"disturbed,omitempty"`
	// Peers is what each of them measured.
	Peers map[string]Values `json:"peers"`
}

// Result is what was measured of a case.
type Result struct {
	Name     string             `json:"name"`
	At       map[string]float64 `json:"at,omitempty"`
	Settings map[string]string  `json:"settings,omitempty"`
	Rounds   []Round            `json:"rounds"`
	// Discarded rounds were disturbed and repeated.
	Discarded int     `json:"discarded"`
	Seconds   float64 `json:"seconds"`
}

// Interleave measures a case. Who begins changes from round to round. A peer
// that fails ends it: what remains would not be a comparison.
func (o Options) Interleave(ctx context.Context, c Case) (Result, error) {
	r := Result{Name: c.Name, At: c.At, Settings: c.Settings}
	began := time.Now()
	for len(r.Rounds) < o.Rounds {
		round, err := o.round(ctx, c, len(r.Rounds))
		if err != nil {
			return r, fmt.Errorf("%s: %w", c.Name, err)
		}
		if round.Disturbed && r.Discarded < o.Repeats {
			r.Discarded++
			o.log("%s: round repeated, others took %.0f %% of the processors", c.Name, 100*round.Foreign)
			continue
		}
		r.Rounds = append(r.Rounds, round)
	}
	r.Seconds = time.Since(began).Seconds()
	return r, nil
}

func (o Options) round(ctx context.Context, c Case, n int) (Round, error) {
	round := Round{Peers: make(map[string]Values, len(c.Peers))}
	before, err := readProcessors()
	if err != nil {
		return round, err
	}
	for turn := range c.Peers {
		p := c.Peers[(turn+n)%len(c.Peers)]
		v, err := p.Run(ctx)
		if err != nil {
			return round, fmt.Errorf("%s: %w", p.Name, err)
		}
		round.Peers[p.Name] = v
		if err := ctx.Err(); err != nil {
			return round, err
		}
	}
	after, err := readProcessors()
	if err != nil {
		return round, err
	}
	round.Foreign, round.Load = foreign(before, after), after.load
	round.Disturbed = round.Foreign > o.MaxForeign
	return round, nil
}

func (o Options) log(format string, args ...any) {
	if o.Log != nil {
		o.Log(format, args...)
	}
}

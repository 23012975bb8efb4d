// SPDX-License-Identifier: Apache-2.0

package interruptions

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

const (
	// DataKey is the key of the table in its ConfigMap.
	DataKey = "interruptions"
	// maxBytes bounds the text that is read, and maxName a name in it.
	maxBytes, maxName = 256 << 10, 1 << 10
	// maxSkew is how far the clock of who wrote the text may be ahead.
	maxSkew = time.Minute
)

type recordedTable struct {
	Keys    []string         `json:"keys"`
	Domains []recordedDomain `json:"domains"`
	Nodes   []string         `json:"nodes,omitempty"`
}

type recordedDomain struct {
	Domain      string `json:"domain"`
	Thousandths int64  `json:"thousandths"`
	Last        int64  `json:"last"`
	Until       int64  `json:"until,omitempty"`
}

// Encode returns the text of a table.
func (t *Table) Encode() (string, error) {
	r := recordedTable{Keys: t.Keys, Domains: make([]recordedDomain, 0, len(t.Domains)), Nodes: t.nodes}
	for _, d := range t.Domains {
		one := recordedDomain{Domain: d.Name, Thousandths: d.count, Last: d.last.Unix()}
		if !d.Until.IsZero() {
			one.Until = d.Until.Unix()
		}
		r.Domains = append(r.Domains, one)
	}
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encode the interruptions: %w", err)
	}
	return string(text), nil
}

// Decode reads a table. Domains of other keys are left out, since they name other nodes. Whoever may write the object may have
// written anything: what cannot be is left out, and no quarantine is longer than what may be configured.
func Decode(text string, keys []string, now time.Time) (Table, error) {
	t := Table{Keys: slices.Clone(keys)}
	if len(text) > maxBytes {
		return t, fmt.Errorf("decode the interruptions: %d bytes are more than %d", len(text), maxBytes)
	}
	if text == "" {
		return t, nil
	}
	var r recordedTable
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return t, fmt.Errorf("decode the interruptions: %w", err)
	}
	t.restore(&r, now)
	return t, nil
}

func (t *Table) restore(r *recordedTable, now time.Time) {
	for _, node := range r.Nodes {
		if len(t.nodes) < maxNodes && len(node) <= maxName && !t.Has(node) {
			t.nodes = append(t.nodes, node)
		}
	}
	if !slices.Equal(r.Keys, t.Keys) {
		return
	}
	for i := range r.Domains {
		if d, ok := r.Domains[i].restore(now); ok && len(t.Domains) < MaxDomains && t.Find(d.Name) == nil {
			t.Domains = append(t.Domains, d)
		}
	}
	t.prune(now)
}

func (r *recordedDomain) restore(now time.Time) (d Domain, ok bool) {
	last := time.Unix(r.Last, 0)
	if len(r.Domain) > maxName || r.Thousandths <= 0 || r.Last <= 0 || last.After(now.Add(maxSkew)) {
		return d, false
	}
	d = Domain{Name: r.Domain, count: min(r.Thousandths, maxCount), last: last}
	if until := time.Unix(r.Until, 0); r.Until > 0 && !until.After(now.Add(MaxQuarantine)) {
		d.Until = until
	}
	return d, true
}

// SPDX-License-Identifier: Apache-2.0

package interruptions

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth.dev/berth/apis/v1alpha1"
)

const (
	// ConfigMap is the name of the ConfigMap with the table, which berth-controller writes in its namespace.
	ConfigMap = "berth-controller" + v1alpha1.InterruptionsConfigMapSuffix
	// DataKey is the key of the table in it.
	DataKey = "interruptions"
	// maxBytes bounds the text that is read, maxName a name in it, and maxKeys the keys that an error names.
	maxBytes, maxName, maxKeys = 512 << 10, 1 << 10, 4
)

type recordedTable struct {
	Keys    []string         `json:"keys"`
	Domains []recordedDomain `json:"domains"`
	// Nodes have the time, by UID.
	Nodes map[string]int64 `json:"nodes,omitempty"`
}

type recordedDomain struct {
	Domain      string `json:"domain"`
	Thousandths int64  `json:"thousandths"`
	Last        int64  `json:"last"`
	Until       int64  `json:"until,omitempty"`
}

// Encode returns the text of a table.
func (t *Table) Encode() (string, error) {
	r := recordedTable{Keys: t.Keys, Domains: make([]recordedDomain, 0, len(t.Domains)), Nodes: make(map[string]int64, len(t.nodes))}
	for _, c := range t.nodes {
		r.Nodes[c.node] = c.at.Unix()
	}
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

// ErrOtherKeys is the error for domains of other keys, which name other nodes: berth-scheduler and berth-controller have different
// configurations. The nodes are decoded nevertheless.
var ErrOtherKeys = errors.New("the node labels of the interruption domains differ")

// Decode reads a table. Domains of other keys are left out. Whoever may write the object may have
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
	t.nodes = restoreNodes(r.Nodes, now)
	if !slices.Equal(r.Keys, keys) {
		return t, fmt.Errorf("%w: %.100q are not %q", ErrOtherKeys, r.Keys[:min(len(r.Keys), maxKeys)], keys)
	}
	t.restore(r.Domains, now)
	return t, nil
}

func (t *Table) restore(recorded []recordedDomain, now time.Time) {
	for i := range recorded {
		if d, ok := recorded[i].restore(now); ok && len(t.Domains) < MaxDomains && t.Find(d.Name) == nil {
			t.Domains = append(t.Domains, d)
		}
	}
	t.prune(now)
}

// restoreNodes returns the nodes that were counted in the last hours, in the order of their times.
func restoreNodes(recorded map[string]int64, now time.Time) (nodes []counted) {
	for node, at := range recorded {
		c := counted{node, earliest(time.Unix(at, 0), now)}
		if len(node) <= maxName && at > 0 && now.Sub(c.at) < maxMemory {
			nodes = append(nodes, c)
		}
	}
	slices.SortFunc(nodes, func(a, b counted) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.node, b.node)) })
	return nodes[max(0, len(nodes)-maxNodes):]
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// restore returns a domain. The clock of who wrote it may be ahead, so what is to come counts as of now.
func (r *recordedDomain) restore(now time.Time) (d Domain, ok bool) {
	last := earliest(time.Unix(r.Last, 0), now)
	if len(r.Domain) > maxName || r.Thousandths <= 0 || r.Last <= 0 {
		return d, false
	}
	d = Domain{Name: r.Domain, count: min(r.Thousandths, maxCount), last: last}
	if r.Until > 0 {
		d.Until = earliest(time.Unix(r.Until, 0), last.Add(MaxQuarantine))
	}
	return d, true
}

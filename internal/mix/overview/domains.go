// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/interruptions"
)

// Domains is what `nodes --domains` shows.
type Domains struct {
	Domains []DomainStatus `json:"domains"`
}

// DomainStatus is an interruption domain: its spot nodes, and what was counted of their interruptions.
type DomainStatus struct {
	Domain    string `json:"domain"`
	Nodes     int    `json:"nodes"`
	Departing int    `json:"departing"`
	// Replicas are the governed pods on these nodes, and SharePercent their share of those on all spot nodes.
	Replicas     Maybe[int] `json:"replicas"`
	SharePercent Maybe[int] `json:"sharePercent"`
	// Interruptions counts the nodes that were interrupted, in thousandths: each counts half after an hour.
	Interruptions Maybe[Thousandths] `json:"interruptionThousandths"`
	// QuarantinedUntil is the end of the quarantine, nil if there is none.
	QuarantinedUntil *metav1.Time `json:"quarantinedUntil"`
}

// Thousandths is a number.
type Thousandths int64

// String rounds to one decimal place.
func (t Thousandths) String() string {
	tenths := (int64(t) + 50) / 100
	return fmt.Sprintf("%d.%d", tenths/10, tenths%10)
}

// DomainsOf returns the interruption domains of the spot nodes. Their interruptions are unknown until Add.
func DomainsOf(c *Cluster) *Domains {
	known := !c.Missing("pods") && !c.Missing(MixesResource)
	pods := podsByNode(c)
	by := map[string]*DomainStatus{}
	replicas, all := map[string]int{}, 0
	for _, n := range c.State.Nodes() {
		if n.Type != capacity.Spot || !interruptions.Identified(n.Domain) {
			continue
		}
		d := by[n.Domain]
		if d == nil {
			d = &DomainStatus{Domain: n.Domain}
			by[n.Domain] = d
		}
		d.Nodes++
		if n.Departing != "" {
			d.Departing++
		}
		here := pods[n.Name].Spot + pods[n.Name].OnDemand
		replicas[n.Domain] += here
		all += here
	}
	out := &Domains{Domains: make([]DomainStatus, 0, len(by))}
	for _, d := range by {
		if known {
			d.Replicas, d.SharePercent = Known(replicas[d.Domain]), Known((100*replicas[d.Domain]+all/2)/max(all, 1))
		}
		out.Domains = append(out.Domains, *d)
	}
	out.sort()
	return out
}

// Add adds what was counted of interruptions, also in domains whose last node is gone.
func (d *Domains) Add(t *interruptions.Table, now time.Time) {
	for i := range t.Domains {
		name := display.Inert(t.Domains[i].Name, maxName)
		if !slices.ContainsFunc(d.Domains, func(s DomainStatus) bool { return s.Domain == name }) {
			d.Domains = append(d.Domains, DomainStatus{Domain: name, Replicas: Known(0), SharePercent: Known(0)})
		}
	}
	for i := range d.Domains {
		s := &d.Domains[i]
		s.Interruptions = Known(Thousandths(0))
		if counted := t.Find(s.Domain); counted != nil {
			s.Interruptions = Known(Thousandths(counted.Thousandths(now)))
			if counted.Quarantined(now) {
				s.QuarantinedUntil = &metav1.Time{Time: counted.Until}
			}
		}
	}
	d.sort()
}

func (d *Domains) sort() {
	slices.SortFunc(d.Domains, func(a, b DomainStatus) int { return display.Natural(a.Domain, b.Domain) })
}

// Quarantine is the end of the quarantine for people, "" if there is none, and "?" where that is unknown.
func (s *DomainStatus) Quarantine() string {
	switch {
	case s.Interruptions.Unknown():
		return s.Interruptions.String()
	case s.QuarantinedUntil == nil:
		return ""
	}
	return s.QuarantinedUntil.UTC().Format(time.RFC3339)
}

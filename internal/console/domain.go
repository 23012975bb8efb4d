// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"

	"berth.dev/berth/internal/mix/overview"
)

// loss is what a workload loses with an interruption domain.
type loss struct {
	w *overview.Workload
	// here are its replicas on spot nodes of the domain, all those on spot nodes, and replicas all that it has.
	here, spot, replicas int
}

// domainPage is the page of an interruption domain: its nodes, and what each workload would lose if the provider reclaimed it.
func domainPage(_ []string, q url.Values, s *state) (*page, error) {
	if s.Nodes == nil {
		return nil, errUnknownNodes
	}
	name := q.Get(nameParameter)
	on := map[string]bool{}
	var nodes []*overview.NodeDetail
	departing := 0
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Domain != name || name == "" {
			continue
		}
		nodes, on[n.Name] = append(nodes, n), true
		if n.Departing != "" {
			departing++
		}
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("there is no domain %s", inert(name))
	}
	v := struct{ Nodes, Departing int }{len(nodes), departing}
	losses := lossListing(s)
	losses.keeps = []string{"filter", "sort", "page"}
	list := nodeListing(s)
	list.keeps = []string{losses.prefix + "filter", losses.prefix + "sort", losses.prefix + "page"}
	parts := append(status(s), &part{id: "domain", before: render("domain", v)})
	parts = append(parts, losses.parts("/domain", q, lossesOf(s.Overview, on))...)
	parts = append(parts, &part{id: "domain-nodes", before: render("domain-nodes", nil)})
	return &page{title: "Domain " + inert(name), parts: append(parts, list.parts("/domain", q, nodes)...)}, nil
}

// domainRow is an interruption domain in the page of the nodes.
type domainRow struct {
	Domain                                value
	Nodes                                 int
	Replicas, Share, Interruptions, Until string
	Quarantined                           bool
}

// domainRows are the interruption domains, none where the nodes were not read.
func domainRows(s *state) (rows []domainRow) {
	if s.Domains == nil {
		return nil
	}
	for i := range s.Domains.Domains {
		d := &s.Domains.Domains[i]
		url := domainURL(d.Domain)
		if d.Nodes == 0 {
			url = "" // its last node is gone, and so is its page
		}
		rows = append(rows, domainRow{
			Domain: linkValue(d.Domain, url), Nodes: d.Nodes, Replicas: d.Replicas.String(), Share: d.SharePercent.String(),
			Interruptions: d.Interruptions.String(), Until: d.Quarantine(), Quarantined: d.QuarantinedUntil != nil,
		})
	}
	return rows
}

// interruptionsKnown reports whether the interruptions of a domain are known. The console service may not read them.
func interruptionsKnown(s *state) bool {
	return s.Domains != nil && slices.ContainsFunc(s.Domains.Domains, func(d overview.DomainStatus) bool {
		return !d.Interruptions.Unknown()
	})
}

// lossListing lists what workloads lose.
func lossListing(s *state) listing[loss] {
	return listing[loss]{
		id: "losses", label: "Losses", noun: "workload", prefix: "losses-", empty: "<p>No replica of a mix is on its spot nodes.</p>",
		unknown: s.podsOf(0).Unknown(), why: "pods or mixes could not be listed",
		row: func(l loss) string {
			return strings.Join([]string{l.w.Namespace, l.w.Kind, l.w.Name, l.w.Revision, l.w.Role, l.w.ID}, "/")
		},
		columns: []column[loss]{
			{"workload", "Workload", false, func(l loss) value {
				v := linkValue(workloadName(l.w), workloadURL(l.w))
				v.Note = inert(strings.Join(strings.Fields(l.w.Namespace+" "+l.w.Revision+" "+l.w.Role), " "))
				return v
			}},
			{"lost", "Replicas lost", true, func(l loss) value {
				return value{Text: fmt.Sprintf("%d of %d", l.here, l.replicas), order: int64(l.here)}
			}},
			{"share", "Share lost", false, func(l loss) value {
				percent := l.percent()
				return value{Text: fmt.Sprintf("%d %%", percent), draw: func() template.HTML { return render("share", percent) }}
			}},
			{"spot", "Replicas on spot", true, func(l loss) value { return numberValue(l.spot) }},
		},
	}
}

// percent is the share that is lost, at least one.
func (l *loss) percent() int { return max(1, (100*l.here+l.replicas/2)/l.replicas) }

// lossesOf are the workloads with replicas on spot nodes of a domain, first those that lose the largest share.
func lossesOf(o *overview.Overview, on map[string]bool) (losses []loss) {
	for i := range o.Workloads {
		w := &o.Workloads[i]
		l := loss{w: w}
		for j := range w.Slots {
			spot, here := lost(&w.Slots[j], on)
			if spot {
				l.spot++
			}
			if here {
				l.here++
			}
		}
		if l.replicas = max(w.Replicas, l.here); l.here > 0 {
			losses = append(losses, l)
		}
	}
	slices.SortStableFunc(losses, func(a, b loss) int { return b.here*a.replicas - a.here*b.replicas })
	return losses
}

// lost reports whether a replica has a pod on a spot node, and on one of the nodes: a unit is lost with the first of its pods.
func lost(s *overview.Slot, on map[string]bool) (spot, here bool) {
	for _, p := range s.Members() {
		if p.NodeType == spotName {
			spot, here = true, here || on[p.Node]
		}
	}
	return spot, here
}

// spotName is what slots call the capacity type of spot nodes.
const spotName = "spot"

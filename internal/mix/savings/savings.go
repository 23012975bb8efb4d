// SPDX-License-Identifier: Apache-2.0

// Package savings computes what the mixes of a cluster save: what the replicas cost where they run, what they would cost if all of them ran
// on on-demand nodes, what the wanted mix would save more, and what the floor costs. All amounts are US dollars an hour.
//
// A pod costs its part of its node: its requests of CPU and memory, weighed as they are sold, over those that the node has for pods. What a
// node has left is in no figure. A replica on a spot node saves the difference of the node's two prices.
package savings

import (
	"cmp"
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/prices"
)

// HoursPerMonth is the number of hours of a month in which providers publish monthly prices.
const HoursPerMonth = 730

// Figures are sums over pods, in dollars an hour. Pods without a price are in none of the amounts.
type Figures struct {
	// Replicas is how many replicas there are, Pods how many pods they have, and Priced how many of these pods have a price.
	Replicas int `json:"replicas"`
	Pods     int `json:"pods"`
	Priced   int `json:"priced"`
	// Reserved is how many pods run on capacity that is paid for whether it is used or not. They cost nothing more.
	Reserved int `json:"reserved,omitempty"`
	// Cost is what the pods cost where they run, AllOnDemand what they would cost on on-demand nodes of the same instance type.
	// CostOnSpot is the part of Cost that is of spot nodes.
	Cost        float64 `json:"cost"`
	CostOnSpot  float64 `json:"costOnSpot"`
	AllOnDemand float64 `json:"allOnDemand"`
	// Saved is AllOnDemand without Cost. Available is what the replicas would save more that have a spot slot and run on on-demand nodes,
	// and Floor what those of the floor would save on spot nodes: its price.
	Saved     float64 `json:"saved"`
	Available float64 `json:"available"`
	Floor     float64 `json:"floor"`
}

func (f *Figures) add(g *Figures) {
	f.Replicas, f.Pods, f.Priced, f.Reserved = f.Replicas+g.Replicas, f.Pods+g.Pods, f.Priced+g.Priced, f.Reserved+g.Reserved
	f.Cost, f.CostOnSpot, f.AllOnDemand = f.Cost+g.Cost, f.CostOnSpot+g.CostOnSpot, f.AllOnDemand+g.AllOnDemand
	f.Saved, f.Available, f.Floor = f.Saved+g.Saved, f.Available+g.Available, f.Floor+g.Floor
}

// Row is what one workload, mix or namespace saves.
type Row struct {
	Namespace string `json:"namespace"`
	// Kind, Name, Revision and Role are those of a workload.
	Kind     string `json:"kind,omitempty"`
	Name     string `json:"name,omitempty"`
	Revision string `json:"revision,omitempty"`
	Role     string `json:"role,omitempty"`
	// Bare is set for the pods of a mix that have no controller.
	Bare bool `json:"bare,omitempty"`
	// Mix is where the mix comes from: capacitymix/NAME, annotations/pod, annotations/controller or default.
	Mix string `json:"mix,omitempty"`
	// Unit is the name of a unit of the workload.
	Unit    string `json:"unit,omitempty"`
	Figures `json:",inline"`
}

// Used is a source with the number of pods that have a price of it.
type Used struct {
	prices.Source `json:",inline"`
	// Estimated is set where the prices are old, or made of rates.
	Estimated bool `json:"estimate"`
	Pods      int  `json:"pods"`
}

// Unpriced is why pods have no price.
type Unpriced struct {
	Reason string `json:"reason"`
	Pods   int    `json:"pods"`
}

// maxUnpriced is how many reasons a report has.
const maxUnpriced = 20

// Report is what `savings` shows.
type Report struct {
	Rows  []Row   `json:"rows"`
	Total Figures `json:"total"`
	// Sources are those of the prices, the one with the most pods first, and Unpriced the reasons why pods have none.
	Sources  []Used     `json:"sources"`
	Unpriced []Unpriced `json:"unpriced,omitempty"`
}

// Estimate reports whether a figure is made of an estimate.
func (r *Report) Estimate() bool {
	return slices.ContainsFunc(r.Sources, func(u Used) bool { return u.Estimated })
}

// By is what a row is of.
type By string

// What rows can be of.
const (
	ByWorkload  By = "workload"
	ByMix       By = "mix"
	ByNamespace By = "namespace"
	ByUnit      By = "unit"
)

// All are the values of By, for the flag of the command line.
var All = []By{ByWorkload, ByMix, ByNamespace, ByUnit}

// builder collects a report.
type builder struct {
	meter
	unpriced map[string]int
}

// Pod is a pod of a replica: where it runs, "" without a node, and what it requests.
type Pod struct {
	Node, NodeType   string
	MilliCPU, Memory int64
}

// Replica is a replica that a mix governs.
type Replica struct {
	// Row is the row that the replica counts for, without figures.
	Row Row
	// Type is the type of its slot. Floor is set for the slots of minOnDemand.
	Type  string
	Floor bool
	Pods  []Pod
}

// Of returns what replicas save on nodes.
func Of(replicas iter.Seq[Replica], nodes []*corev1.Node, book *prices.Book, now time.Time) *Report {
	byName := make(map[string]*corev1.Node, len(nodes))
	for _, n := range nodes {
		byName[n.Name] = n
	}
	b := &builder{unpriced: map[string]int{}, meter: newMeter(book, func(name string) (n Node, there bool) {
		if o := byName[name]; o != nil {
			return NodeOf(o), true
		}
		return n, false
	})}
	r := &Report{Rows: []Row{}, Sources: []Used{}}
	at := map[Row]int{}
	for one := range replicas {
		f := b.replica(&one)
		r.Total.add(&f)
		n, has := at[one.Row]
		if !has {
			n = len(r.Rows)
			at[one.Row] = n
			r.Rows = append(r.Rows, one.Row)
		}
		r.Rows[n].add(&f)
	}
	slices.SortStableFunc(r.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Saved+b.Available, a.Saved+a.Available), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name))
	})
	b.report(r, now)
	return r
}

// replica are the figures of a replica. One without a pod is none.
func (b *builder) replica(r *Replica) (f Figures) {
	if len(r.Pods) == 0 {
		return f
	}
	f.Replicas = 1
	for i := range r.Pods {
		f.Pods++
		b.pod(&f, &r.Pods[i], r)
	}
	return f
}

// pod adds a pod to the figures of its replica.
func (b *builder) pod(f *Figures, p *Pod, r *Replica) {
	part, n, why := b.part(p)
	if why == "" && !n.Reserved {
		why = b.price(n)
	}
	if why != "" {
		b.unpriced[why]++
		return
	}
	n.add(f, p, part, r)
}

// add adds a pod that has a price, and requests a part of the node, to the figures of its replica.
func (n *node) add(f *Figures, p *Pod, part float64, r *Replica) {
	f.Priced++
	if n.Reserved {
		f.Reserved++
		return
	}
	n.priced++
	onDemand, spot := part*n.quote.OnDemand.Dollars, part*n.quote.Spot.Dollars
	f.AllOnDemand += onDemand
	if n.typeOf(p) == capacity.Spot.String() {
		f.Cost += spot
		f.CostOnSpot += spot
		f.Saved += onDemand - spot
		return
	}
	f.Cost += onDemand
	switch {
	case r.Floor:
		f.Floor += onDemand - spot
	case r.Type == capacity.Spot.String():
		f.Available += onDemand - spot
	}
}

// sources counts the pods by the sources of their prices.
func (m *meter) sources() map[prices.Source]int {
	all := map[prices.Source]int{}
	for _, n := range m.nodes {
		if n == nil || n.priced == 0 {
			continue
		}
		all[*n.quote.OnDemand.Source] += n.priced
		if *n.quote.Spot.Source != *n.quote.OnDemand.Source {
			all[*n.quote.Spot.Source] += n.priced
		}
	}
	return all
}

// report adds the sources and what has no price.
func (b *builder) report(r *Report, now time.Time) {
	for s, n := range b.sources() {
		r.Sources = append(r.Sources, Used{s, s.Estimate(now), n})
	}
	slices.SortFunc(r.Sources, func(a, b Used) int { return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Name, b.Name)) })
	for why, n := range b.unpriced {
		r.Unpriced = append(r.Unpriced, Unpriced{why, n})
	}
	slices.SortFunc(r.Unpriced, func(a, b Unpriced) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Reason, b.Reason))
	})
	if len(r.Unpriced) > maxUnpriced {
		last := &r.Unpriced[maxUnpriced-1]
		for _, u := range r.Unpriced[maxUnpriced:] {
			last.Pods += u.Pods
		}
		last.Reason, r.Unpriced = "other reasons", r.Unpriced[:maxUnpriced]
	}
}

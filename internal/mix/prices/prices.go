// SPDX-License-Identifier: Apache-2.0

// Package prices has what nodes cost an hour, in US dollars: on-demand and as spot. A Book reads several sources in their order, each of
// which has a name and a date, so that an output can name where a figure is from and how old it is.
package prices

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// estimateAfter is how old a price may be that is not called an estimate: spot prices follow the market.
const estimateAfter = 90 * 24 * time.Hour

// Source is where prices are from.
type Source struct {
	Name string `json:"name"`
	// Date is when the prices were valid.
	Date time.Time `json:"date"`
	// Rates is set where the price of a node is not known, and is made of what its CPU and memory cost elsewhere.
	Rates bool `json:"rates,omitempty"`
}

// Estimate reports whether prices are estimates: they are old, or rates.
func (s *Source) Estimate(now time.Time) bool { return s.Rates || now.Sub(s.Date) > estimateAfter }

// Node is what a price depends on.
type Node struct {
	Labels       labels.Set
	InstanceType string
	Region, Zone string
	// Simulated is set where there is no machine: a price that a program of the cluster has of it is that of no market.
	Simulated bool
	// CPU is in cores, Memory in bytes.
	CPU, Memory float64
}

// Origin is the kind of a source, of which there are few.
type Origin string

// The kinds of sources. A price that a NodeOverlay only changes has the origin that it had before.
const (
	OriginFile      Origin = "file"
	OriginOverlay   Origin = "node-overlay"
	OriginKarpenter Origin = "karpenter"
	OriginOpenCost  Origin = "opencost"
	OriginList      Origin = "list"
	OriginRates     Origin = "rates"
)

// Origins are all kinds of sources.
var Origins = []Origin{OriginFile, OriginOverlay, OriginKarpenter, OriginOpenCost, OriginList, OriginRates}

// Amount is a price in dollars an hour, with its source. The zero value is unknown.
type Amount struct {
	Dollars float64
	Source  *Source
	Origin  Origin
}

// Known reports whether there is a price.
func (a Amount) Known() bool { return a.Source != nil }

// Quote are the prices of a node.
type Quote struct{ OnDemand, Spot Amount }

// source has prices, 0 for those that it does not have.
type source interface {
	amounts(n *Node) (onDemand, spot float64)
}

// Book are sources in their order: of each price the first that has it.
type Book struct {
	entries []entry
	// discount is the part of the on-demand prices of lists that the user does not pay.
	discount float64
	overlays *Overlays
	notes    []string
}

type entry struct {
	source
	of     *Source
	origin Origin
	// listed is set where on-demand prices are those of a public list, to which a discount applies.
	listed bool
	// live is set where the prices are metrics of the cluster, and own where they are those of the user.
	live, own bool
}

// Options are what a Book is made of.
type Options struct {
	// File has the prices of the user, nil for none.
	File *File
	// Metrics are prices that programs of the cluster have, nil for none.
	Metrics *Metrics
	// Overlays are those of Karpenter, nil for none.
	Overlays *Overlays
	// Discount is the percentage by which the user pays less for on-demand nodes than public lists have it. That of the file applies where
	// it is 0.
	Discount float64
}

// New returns a book of the user's prices, those of the cluster, the tables of this package and, last, rates for CPU and memory.
func New(o Options) (*Book, error) {
	tables, err := embedded()
	if err != nil {
		return nil, err
	}
	b := &Book{discount: o.Discount / 100, overlays: o.Overlays}
	if o.Overlays != nil {
		b.notes = append(b.notes, o.Overlays.Notes...)
	}
	if f := o.File; f != nil {
		b.entries = append(b.entries, entry{source: f, of: &f.Source, origin: OriginFile, own: true})
		if o.Discount == 0 {
			b.discount = f.DiscountPercent / 100
		}
	}
	if o.Metrics != nil {
		b.notes = append(b.notes, o.Metrics.Notes...)
		for _, l := range o.Metrics.sources {
			b.entries = append(b.entries, entry{source: l.source, of: l.of, origin: l.origin, listed: true, live: true})
		}
	}
	for _, t := range tables {
		b.entries = append(b.entries, entry{source: t, of: &t.Source, origin: OriginList, listed: true})
	}
	r := defaultRates
	if o.File != nil && o.File.Rates != nil {
		r = *o.File.Rates
		r.of = Source{Name: o.File.Name, Date: o.File.Source.Date, Rates: true}
	}
	b.entries = append(b.entries, entry{source: &r, of: &r.of, origin: OriginRates, listed: o.File == nil || o.File.Rates == nil})
	return b, nil
}

// Reading is what was read last of sources that are read from time to time.
type Reading struct {
	// Began is set once something was read, or could not be.
	Began bool
	// Book has the prices of the last reading that succeeded, at At. It is nil where there is none, or it is too old.
	Book *Book
	At   time.Time
	// Problem is why the last reading failed, "" if it succeeded.
	Problem string
}

// Notes are what of the sources is not used, a sentence each.
func (b *Book) Notes() []string { return b.notes }

// Of returns the prices of a node. Rates make both prices or none: the difference of a listed price and a rate would be no saving.
func (b *Book) Of(n *Node) (q Quote) {
	onDemand, spot := b.overlays.of(n, capacityOnDemand), b.overlays.of(n, capacitySpot)
	for _, e := range b.entries {
		if e.of.Rates && (q.OnDemand.Known() || q.Spot.Known()) {
			break
		}
		if e.live && n.Simulated {
			continue
		}
		if !e.own {
			q.OnDemand, q.Spot = q.OnDemand.or(onDemand.price()), q.Spot.or(spot.price())
		}
		dollars, spotDollars := e.amounts(n)
		if e.listed && !e.changedBy(onDemand) {
			dollars *= 1 - b.discount
		}
		q.OnDemand, q.Spot = q.OnDemand.or(e.amount(dollars, onDemand)), q.Spot.or(e.amount(spotDollars, spot))
	}
	return q
}

// changedBy reports whether an overlay changes the prices of the source: none of the user, and no rates.
func (e *entry) changedBy(o *overlay) bool { return o.adjusts() && !e.own && !e.of.Rates }

// amount is a price of the source as an overlay changes it, unknown for 0.
func (e *entry) amount(dollars float64, o *overlay) Amount {
	if dollars <= 0 {
		return Amount{}
	}
	a := Amount{dollars, e.of, e.origin}
	if e.changedBy(o) {
		return o.adjust(a)
	}
	return a
}

// or returns another amount where this one is not known.
func (a Amount) or(other Amount) Amount {
	if a.Known() {
		return a
	}
	return other
}

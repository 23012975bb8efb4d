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
	// CPU is in cores, Memory in bytes.
	CPU, Memory float64
}

// Amount is a price in dollars an hour, with its source. The zero value is unknown.
type Amount struct {
	Dollars float64
	Source  *Source
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
}

type entry struct {
	source
	of *Source
	// listed is set where on-demand prices are those of a public list, to which a discount applies.
	listed bool
}

// Options are what a Book is made of.
type Options struct {
	// File has the prices of the user, nil for none.
	File *File
	// Discount is the percentage by which the user pays less for on-demand nodes than public lists have it. That of the file applies where
	// it is 0.
	Discount float64
}

// New returns a book of the user's prices, the tables of this package and, last, rates for CPU and memory.
func New(o Options) (*Book, error) {
	tables, err := embedded()
	if err != nil {
		return nil, err
	}
	b := &Book{discount: o.Discount / 100}
	if f := o.File; f != nil {
		b.entries = append(b.entries, entry{f, &f.Source, false})
		if o.Discount == 0 {
			b.discount = f.DiscountPercent / 100
		}
	}
	for _, t := range tables {
		b.entries = append(b.entries, entry{t, &t.Source, true})
	}
	r := defaultRates
	if o.File != nil && o.File.Rates != nil {
		r = *o.File.Rates
		r.of = Source{Name: o.File.Name, Date: o.File.Source.Date, Rates: true}
	}
	b.entries = append(b.entries, entry{&r, &r.of, o.File == nil || o.File.Rates == nil})
	return b, nil
}

// Of returns the prices of a node. Rates make both prices or none: the difference of a listed price and a rate would be no saving.
func (b *Book) Of(n *Node) (q Quote) {
	for _, e := range b.entries {
		if e.of.Rates && (q.OnDemand.Known() || q.Spot.Known()) {
			break
		}
		onDemand, spot := e.amounts(n)
		if onDemand > 0 && !q.OnDemand.Known() {
			if e.listed {
				onDemand *= 1 - b.discount
			}
			q.OnDemand = Amount{onDemand, e.of}
		}
		if spot > 0 && !q.Spot.Known() {
			q.Spot = Amount{spot, e.of}
		}
	}
	return q
}

// SPDX-License-Identifier: Apache-2.0

package pricefeed

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"berth.dev/berth/internal/mix/prices"
)

const (
	// keepFor is how long a reading is used without a newer one: after that, prices are unknown.
	keepFor = 24 * time.Hour
	// readWithin bounds a reading of all sources.
	readWithin = 2 * time.Minute
	// reportEvery is how often a failure is reported that stays the same.
	reportEvery = time.Hour
)

// Options are what a feed reads.
type Options struct {
	Own  Own
	Live Live
	// Overlays reads the NodeOverlays; nil for none.
	Overlays func(context.Context) (*prices.Overlays, error)
	// Interval is the time between two readings.
	Interval time.Duration
	Clock    clock.WithTicker
	// Report is called when a reading fails, once an hour where it fails as before, and with nil once one succeeds again.
	Report func(error)
}

// Feed reads prices from time to time. Who uses them has the last reading, and never waits for the next one.
type Feed struct {
	Options
	// reported is the text of the last failure that was reported, at reportedAt.
	reported   string
	reportedAt time.Time

	mu   sync.Mutex // guards what follows
	last prices.Reading
}

// New returns a feed. It reads nothing before it is started.
func New(o Options) *Feed { return &Feed{Options: o} }

// AddOverlays adds a source before the feed is started. What was read without it is used until the next reading.
func (f *Feed) AddOverlays(overlays func(context.Context) (*prices.Overlays, error)) {
	f.Overlays = overlays
}

// Start reads until the context ends.
func (f *Feed) Start(ctx context.Context) error {
	ticker := f.Clock.NewTicker(f.Interval)
	defer ticker.Stop()
	for {
		f.Read(ctx)
		if f.constant() {
			<-ctx.Done()
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// constant reports whether each reading has the same: the prices that are built in.
func (f *Feed) constant() bool {
	return f.Own.File == "" && f.Live.Metrics == "" && f.Live.Prometheus == "" && f.Overlays == nil
}

// Read reads once.
func (f *Feed) Read(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	book, err := f.book(within)
	if ctx.Err() != nil {
		return
	}
	f.report(err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last.Began = true
	if err != nil {
		f.last.Problem = err.Error()
		return
	}
	f.last = prices.Reading{Began: true, Book: book, At: f.Clock.Now()}
}

// book is that of all sources: without one of them, prices of the next would be taken for those of this one.
func (f *Feed) book(ctx context.Context) (*prices.Book, error) {
	options, err := f.Own.Options()
	if err != nil {
		return nil, err
	}
	if options.Metrics, err = f.Live.Read(ctx, nil, f.Clock.Now()); err != nil {
		return nil, err
	}
	if f.Overlays != nil {
		if options.Overlays, err = f.Overlays(ctx); err != nil {
			return nil, err
		}
	}
	return prices.New(options)
}

func (f *Feed) report(err error) {
	text, now := "", f.Clock.Now()
	if err != nil {
		text = err.Error()
	}
	if text == f.reported && (err == nil || now.Sub(f.reportedAt) < reportEvery) {
		return
	}
	f.reported, f.reportedAt = text, now
	f.Report(err)
}

// Now returns the last reading, without its prices once they are too old.
func (f *Feed) Now() prices.Reading {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.last
	if r.Problem != "" && f.Clock.Since(r.At) > keepFor {
		r.Book = nil
	}
	return r
}

// SPDX-License-Identifier: Apache-2.0

package pricefeed

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/internal/mix/prices"
)

const offerings = `karpenter_cloudprovider_instance_type_offering_price_estimate{instance_type="m5.large",capacity_type="spot",zone="a"} 0.04` + "\n"

var now = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// endpoint serves offerings at every address, or an error while it is away.
type endpoint struct{ away bool }

func (e *endpoint) Page(_ context.Context, _ string, read func(io.Reader) error) error {
	if e.away {
		return errors.New("no answer")
	}
	return read(strings.NewReader(offerings))
}

func (*endpoint) Values(context.Context, string, []string, time.Time) ([]model.Vector, error) {
	return nil, errors.New("no server")
}

// at has a feed read from an endpoint.
func at(e *endpoint) Options { return Options{Live: Live{Metrics: "http://metrics", From: e}} }

func originOf(b *prices.Book) prices.Origin {
	return b.Of(&prices.Node{InstanceType: "m5.large", Zone: "a", Region: "us-east-1"}).Spot.Origin
}

// feed is one with a clock, and the failures that it reported.
func feed(t *testing.T, o Options) (*Feed, *clocktesting.FakeClock, *[]string) {
	t.Helper()
	c, reported := clocktesting.NewFakeClock(now), &[]string{}
	o.Clock, o.Live.MetricsField, o.Live.PrometheusField = c, "the page", "the server"
	o.Report = func(err error) {
		if err == nil {
			err = errors.New("none")
		}
		*reported = append(*reported, err.Error())
	}
	return New(o), c, reported
}

func TestTheLastReadingIsUsedForADay(t *testing.T) {
	e := &endpoint{}
	f, c, reported := feed(t, at(e))
	assert.Equal(t, prices.Reading{}, f.Now(), "nothing was read yet")
	e.away = true
	f.Read(t.Context())
	const failure = "the page: no answer"
	assert.Equal(t, prices.Reading{Began: true, Problem: failure}, f.Now(), "prices that are built in are not in the place of others")
	e.away = false
	f.Read(t.Context())
	r := f.Now()
	assert.Equal(t, prices.OriginKarpenter, originOf(r.Book))
	assert.Equal(t, prices.Reading{Began: true, Book: r.Book, At: now}, r)
	e.away = true
	c.Step(time.Minute)
	f.Read(t.Context())
	assert.Equal(t, prices.Reading{Began: true, Book: r.Book, At: now, Problem: failure}, f.Now())
	c.Step(24*time.Hour - time.Minute)
	assert.NotNil(t, f.Now().Book)
	c.Step(time.Second)
	assert.Nil(t, f.Now().Book, "it is a day old")
	assert.Equal(t, []string{failure, "none", failure}, *reported)
}

func TestAFailureIsReportedOnceAnHour(t *testing.T) {
	f, c, reported := feed(t, at(&endpoint{away: true}))
	for range 121 {
		f.Read(t.Context())
		c.Step(time.Minute)
	}
	assert.Len(t, *reported, 3)
	f.Own.File = filepath.Join(t.TempDir(), "none")
	f.Read(t.Context())
	require.Len(t, *reported, 4, "another failure")
	assert.Contains(t, (*reported)[3], "no such file")
}

// A file and the overlays are read each time. Without one of them, there are no prices of the others.
func TestEverySourceIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prices.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	var refused error
	f, _, _ := feed(t, Options{Own: Own{File: file}})
	write("date: 2026-11-01\n")
	f.Read(t.Context())
	f.AddOverlays(func(context.Context) (*prices.Overlays, error) { return nil, refused })
	assert.NotNil(t, f.Now().Book, "what was read without overlays is used until the next reading")
	f.Read(t.Context())
	assert.Equal(t, prices.OriginList, originOf(f.Now().Book))
	write("date: 2026-11-01\nnodes: [{instanceType: m5.large, spot: 0.01}]\n")
	f.Read(t.Context())
	assert.Equal(t, prices.OriginFile, originOf(f.Now().Book))
	refused = errors.New("refused")
	f.Read(t.Context())
	assert.Equal(t, "refused", f.Now().Problem)
	write("date: tomorrow\n")
	f.Read(t.Context())
	assert.Contains(t, f.Now().Problem, `prices.yaml: date: Invalid value: "tomorrow"`)
}

func TestAFeedReadsAtItsInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var read atomic.Int32 // the race detector does not see that the time is fixed while the test reads it
		f := New(Options{
			Interval: time.Minute, Clock: clock.RealClock{}, Report: func(error) {},
			Overlays: func(context.Context) (*prices.Overlays, error) { read.Add(1); return nil, nil },
		})
		go func() { _ = f.Start(ctx) }()
		synctest.Wait()
		assert.EqualValues(t, 1, read.Load(), "the first reading does not wait")
		time.Sleep(3*time.Minute + time.Second)
		synctest.Wait()
		assert.EqualValues(t, 4, read.Load())
		cancel()
		synctest.Wait()
	})
}

// Prices that are built in stay the same, and no network is used for them.
func TestPricesThatAreBuiltInAreReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := New(Options{Own: Own{Discount: 10}, Interval: time.Minute, Clock: clock.RealClock{}, Report: func(error) {}})
		go func() { _ = f.Start(ctx) }()
		synctest.Wait()
		first := f.Now()
		require.NotNil(t, first.Book)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, first.At, f.Now().At)
		cancel()
		synctest.Wait()
	})
}

// SPDX-License-Identifier: Apache-2.0

package prices

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var readAt = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// offer is a sample of Karpenter's metric.
func offer(instanceType, capacityType, zone, price string) string {
	return fmt.Sprintf("%s{capacity_type=%q,instance_type=%q,zone=%q} %s\n", offeringPrice, capacityType, instanceType, zone, price)
}

func metricsOf(t *testing.T, text string) *Metrics {
	t.Helper()
	m, err := ReadMetrics("metrics.txt", readAt, strings.NewReader(text))
	require.NoError(t, err)
	return m
}

func bookOf(t *testing.T, o Options) *Book {
	t.Helper()
	b, err := New(o)
	require.NoError(t, err)
	return b
}

// m5 is a node of a type that the built-in tables have too.
func m5(zone string) *Node {
	return &Node{InstanceType: "m5.large", Region: "us-east-1", Zone: zone, CPU: 2, Memory: 8 * gibibyte}
}

func TestKarpentersOfferingsComeBeforeTables(t *testing.T) {
	m := metricsOf(t, "# HELP other some text\n# TYPE other counter\nother 1\n# TYPE "+offeringPrice+" gauge\n"+
		offer("m5.large", "on-demand", "us-east-1a", "0.1")+offer("m5.large", "spot", "us-east-1a", "0.04")+
		offer("m5.large", "spot", "us-east-1a", "0.03")+offer("m5.large", "reserved", "us-east-1a", "9e-9")+
		offer("m5.large", "on-demand", "us-east-1b", "0")+offer("m5.large", "spot", "us-east-1b", "0.05"))
	assert.Empty(t, m.Notes)
	b := bookOf(t, Options{Metrics: m, Discount: 10})
	q := b.Of(m5("us-east-1a"))
	assert.InDelta(t, 0.09, q.OnDemand.Dollars, 1e-9, "the discount is on the price of a list")
	assert.InDelta(t, 0.04, q.Spot.Dollars, 1e-9, "the highest price makes the lowest saving")
	assert.Equal(t, Source{Name: "Karpenter's offerings from metrics.txt", Date: readAt}, *q.Spot.Source)
	q = b.Of(m5("us-east-1b"))
	assert.InDelta(t, 0.9*0.096, q.OnDemand.Dollars, 1e-9, "0 is no price")
	assert.Equal(t, 2026, q.OnDemand.Source.Date.Year())
	assert.InDelta(t, 0.05, q.Spot.Dollars, 1e-9)
	assert.InDelta(t, 0.0317, b.Of(m5("us-east-1c")).Spot.Dollars, 1e-9)
	f, err := ReadFile("prices.yaml", []byte("date: 2026-11-01\nnodes: [{instanceType: m5.large, spot: 0.01}]"))
	require.NoError(t, err)
	assert.InDelta(t, 0.01, bookOf(t, Options{Metrics: m, File: f}).Of(m5("us-east-1a")).Spot.Dollars, 1e-9, "the user's price comes first")
}

// Metrics are as old as their oldest sample, and a sample cannot be newer than the reading.
func TestMetricsAreAsOldAsTheirOldestSample(t *testing.T) {
	old := readAt.AddDate(0, 0, -100)
	m := metricsOf(t, offer("a", "spot", "z", fmt.Sprint("1 ", old.UnixMilli()))+offer("b", "spot", "z", fmt.Sprint("1 ", readAt.AddDate(9, 0, 0).UnixMilli())))
	of := bookOf(t, Options{Metrics: m}).Of(&Node{InstanceType: "b", Zone: "z"}).Spot.Source
	assert.Equal(t, old, of.Date)
	assert.True(t, of.Estimate(readAt))
}

// Karpenter's provider for KWOK takes 0.7 of the on-demand price as that of spot.
func TestSyntheticSpotPricesAreNotUsed(t *testing.T) {
	synthetic := offer("c-1x-amd64-linux", "on-demand", "test-zone-a", "0.027147483648") +
		offer("c-1x-amd64-linux", "spot", "test-zone-a", "0.019003238553599998")
	_, err := ReadMetrics("metrics.txt", readAt, strings.NewReader(synthetic))
	assert.ErrorContains(t, err, "each spot price is 0.7 of the on-demand price")
	m := metricsOf(t, synthetic+offer("m5.large", "on-demand", "us-east-1a", "0.1")+offer("m5.large", "spot", "us-east-1a", "0.0699"))
	assert.Equal(t, []string{"Karpenter's offerings from metrics.txt: 1 of 2 spot prices are 0.7 of the on-demand price, " +
		"as those of Karpenter's provider for KWOK are. They are not used."}, m.Notes)
	b := bookOf(t, Options{Metrics: m})
	assert.Equal(t, m.Notes, b.Notes())
	assert.False(t, b.Of(&Node{InstanceType: "c-1x-amd64-linux", Zone: "test-zone-a"}).Spot.Known())
	assert.InDelta(t, 0.0699, b.Of(m5("us-east-1a")).Spot.Dollars, 1e-9)
	simulated := m5("us-east-1a")
	simulated.Simulated = true
	q := b.Of(simulated)
	assert.InDelta(t, 0.0317, q.Spot.Dollars, 1e-9, "a program has no price of a node without a machine")
	assert.InDelta(t, 0.096, q.OnDemand.Dollars, 1e-9)
}

func TestWhatIsWrongWithMetricsNamesTheLineOrTheSample(t *testing.T) {
	for text, want := range map[string]string{
		"":         "no sample of " + offeringPrice,
		"up 1\n":   "no sample of " + offeringPrice,
		"\xff\x00": "no sample of " + offeringPrice,
		"\n\n" + offeringPrice + "{instance_type=\"a\n":                         "line 3",
		"\n" + offeringPrice + "{instance_type=\"a\",zone=\"z\"} free\n":        `line 2: expected float as value, got "free"`,
		offer("a", "spot", "z", "NaN"):                                          "NaN is no price: want dollars an hour",
		offer("a", "spot", "z", "-1"):                                           `instance_type="a", zone="z"}: -1 is no price`,
		offer("a", "spot", "z", "10000"):                                        "10000 is no price",
		offer("", "spot", "z", "1"):                                             "want the labels instance_type and zone",
		offer("a", "spot", "z", "1 5"):                                          "5 ms is no time of a price",
		"# TYPE " + offeringPrice + " counter\n" + offer("a", "spot", "z", "1"): "is of type counter: want a gauge",
		"\n" + strings.Repeat("x", maxLine+1):                                   "line 2: longer than 16384 bytes",
		offer(strings.Repeat("long", 1000), "spot", "z", "-1"):                  "…: -1 is no price",
	} {
		_, err := ReadMetrics("metrics.txt", readAt, strings.NewReader(text))
		assert.ErrorContains(t, err, want, "%.100q", text)
		if err != nil {
			assert.Less(t, len(err.Error()), 500)
		}
	}
}

// endless repeats a text without end.
type endless struct{ text string }

func (e endless) Read(to []byte) (n int, err error) {
	for n+len(e.text) <= len(to) {
		n += copy(to[n:], e.text)
	}
	return n, nil
}

func TestMetricsAreReadInBounds(t *testing.T) {
	_, err := ReadMetrics("metrics.txt", readAt, endless{"up{a=\"b\"} 1\n"})
	assert.ErrorContains(t, err, "more than 33554432 bytes")
	_, err = ReadMetrics("metrics.txt", readAt, endless{offeringPrice + " 1\n"})
	assert.ErrorContains(t, err, "line 200001: more than 200000 samples")
	_, err = ReadMetrics("metrics.txt", readAt, io.MultiReader(strings.NewReader("\n\n"), failing{}))
	assert.ErrorContains(t, err, "line 3: the connection broke")
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, fmt.Errorf("the connection broke") }

func TestPricesOfPrometheusAreThoseOfTheMetrics(t *testing.T) {
	answers := map[string]model.Vector{}
	for _, q := range Queries() {
		if q.Metric == offeringPrice {
			assert.Equal(t, "max by (instance_type, capacity_type, zone) ("+offeringPrice+")", q.Text)
			answers[q.Metric] = model.Vector{{
				Metric: model.Metric{typeLabel: "m5.large", capacityLabel: "spot", zoneLabel: "us-east-1a"}, Value: 0.04,
			}}
		}
	}
	m, err := ReadAnswers("Prometheus", readAt, answers)
	require.NoError(t, err)
	q := bookOf(t, Options{Metrics: m}).Of(m5("us-east-1a"))
	assert.InDelta(t, 0.04, q.Spot.Dollars, 1e-9)
	assert.Equal(t, Source{Name: "Karpenter's offerings from Prometheus", Date: readAt}, *q.Spot.Source)
}

func FuzzReadMetrics(f *testing.F) {
	f.Add("# TYPE " + offeringPrice + " gauge\n" + offer("a", "on-demand", "z", "1") + offer("a", "spot", "z", "0.5"))
	f.Add(offer("a", "on-demand", "z", "1") + offer("a", "spot", "z", "0.7 1800000000000"))
	f.Add("# TYPE " + offeringPrice)
	f.Add(costed("a", "aws:///a", "0.1", "0.04", "0") + costed("b", "kwok://b", "0.03", "0.01", "1"))
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ReadMetrics("metrics.txt", readAt, strings.NewReader(text))
		if err != nil {
			return
		}
		b, err := New(Options{Metrics: m})
		require.NoError(t, err)
		q := b.Of(&Node{InstanceType: "a", Zone: "z", Region: "z"})
		for _, a := range []Amount{q.OnDemand, q.Spot} {
			require.True(t, a.Dollars >= 0 && a.Dollars < maxPrice, a.Dollars)
			require.True(t, !a.Known() || !a.Source.Date.After(readAt))
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
)

// market has nodes by their name, with 10 cores and 10 GiB each: the instance type before the first hyphen, and after it the type and
// a number.
type market struct {
	*workloads.Store
	reading prices.Reading
}

func newMarket(t require.TestingT, file string) *market {
	f, err := prices.ReadFile("prices.yaml", []byte(file))
	require.NoError(t, err)
	book, err := prices.New(prices.Options{File: f})
	require.NoError(t, err)
	m := &market{workloads.NewStore(), prices.Reading{Began: true, Book: book, At: noon}}
	m.SetComplete()
	return m
}

// sold has prices of two days before noon for the type large, and one of two for the type half.
const sold = "date: 2026-05-30\nnodes: [{instanceType: large, onDemand: 1, spot: 0.25}, {instanceType: half, onDemand: 1}]"

func (*market) node(name string) clusterstate.Node {
	instanceType, on, known := strings.Cut(name, "-")
	on, _, _ = strings.Cut(on, "/")
	if !known {
		return clusterstate.Node{Name: name}
	}
	n := clusterstate.Node{Name: name, CPU: 10_000, Memory: 10 << 30, Offered: &clusterstate.Offered{}}
	n.Offered.Offering = capacity.Offering{InstanceType: instanceType, Region: "us-east-1", CPU: n.CPU, Memory: n.Memory}
	switch on {
	case "spot":
		n.Type = capacity.Spot
	case "reserved":
		n.Type, n.Offered.Reserved = capacity.OnDemand, true
	case "on-demand":
		n.Type = capacity.OnDemand
	}
	return n
}

// workload has a replica on each node, which requests a tenth of it, under a mix of 50 % spot with one on-demand replica at least: on
// the slots O o s o s … where O is the floor.
func (m *market) workload(mix, name string, of split.Mix, nodes ...string) rebalance.Entry {
	e := rebalance.Entry{Mix: mix}
	e.Group = clusterstate.Group{Key: governing.GroupKey{Namespace: "shop", ID: name}, Governing: &governing.Mix{Mix: of}, Replicas: len(nodes)}
	for i, node := range nodes {
		p := &clusterstate.Pod{Namespace: "shop", Name: fmt.Sprintf("%s-%d", name, i), Node: node, CPU: 1000, Memory: 1 << 30}
		e.Group.Assignments = append(e.Group.Assignments, clusterstate.Assignment{
			Pod: p, Assignment: split.Assignment{Wants: of.TypeOf(i), Pod: split.Pod{Slot: i}},
		})
	}
	m.Put(e)
	return e
}

func (m *market) requireMetrics(t *testing.T, want string) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(&SavingsCollector{
		Workloads: m.Store, Node: m.node, Prices: func() prices.Reading { return m.reading }, Clock: clocktesting.NewFakePassiveClock(noon),
	})
	families, err := registry.Gather()
	require.NoError(t, err)
	var got strings.Builder
	for _, f := range families {
		f.Help = nil
		_, err := expfmt.MetricFamilyToText(&got, f)
		require.NoError(t, err)
	}
	var lines []string
	for line := range strings.Lines(got.String()) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	require.Equal(t, strings.TrimPrefix(want, "\n"), strings.Join(lines, ""))
}

var half = split.New(50, 1)

func TestSavingsOfAMixAreAMetric(t *testing.T) {
	m := newMarket(t, sold)
	m.workload("web", "a", half, "large-on-demand", "large-spot", "large-on-demand", "large-spot")
	unit := m.workload("web", "b", half, "large-on-demand", "large-spot")
	unit.Group.Assignments[1].Pods = []*clusterstate.Pod{unit.Group.Assignments[1].Pod, unit.Group.Assignments[1].Pod}
	m.Put(unit)
	other := m.workload("", "c", split.New(0, 0), "large-on-demand")
	m.requireMetrics(t, `
berth_mix_price_age_seconds{source="file"} 216000.123456789
berth_mix_prices_last_read_successful 1
berth_mix_savings_dollars_per_hour{estimate="false",kind="available",mix="",namespace="shop"} 0
berth_mix_savings_dollars_per_hour{estimate="false",kind="available",mix="web",namespace="shop"} 0
berth_mix_savings_dollars_per_hour{estimate="false",kind="floor",mix="",namespace="shop"} 0
berth_mix_savings_dollars_per_hour{estimate="false",kind="floor",mix="web",namespace="shop"} 0.15
berth_mix_savings_dollars_per_hour{estimate="false",kind="saved",mix="",namespace="shop"} 0
berth_mix_savings_dollars_per_hour{estimate="false",kind="saved",mix="web",namespace="shop"} 0.3
berth_mix_savings_pods{mix="",namespace="shop",price="current"} 1
berth_mix_savings_pods{mix="web",namespace="shop",price="current"} 7
`)
	m.Delete(governing.GroupKey{Namespace: "shop", ID: "a"})
	m.Delete(governing.GroupKey{Namespace: "shop", ID: "b"})
	m.Delete(other.Group.Key)
	m.requireMetrics(t, "berth_mix_prices_last_read_successful 1\n")
}

func TestAnUnknownPriceIsInNoAmount(t *testing.T) {
	m := newMarket(t, sold)
	m.workload("web", "a", half, "large-reserved", "unknown", "", "large-somewhere")
	m.workload("none", "b", half, "half-spot", "gone")
	m.requireMetrics(t, `
berth_mix_prices_last_read_successful 1
berth_mix_savings_dollars_per_hour{estimate="false",kind="available",mix="web",namespace="shop"} 0
berth_mix_savings_dollars_per_hour{estimate="false",kind="floor",mix="web",namespace="shop"} 0
berth_mix_savings_dollars_per_hour{estimate="false",kind="saved",mix="web",namespace="shop"} 0
berth_mix_savings_pods{mix="none",namespace="shop",price="unknown"} 2
berth_mix_savings_pods{mix="web",namespace="shop",price="reserved"} 1
berth_mix_savings_pods{mix="web",namespace="shop",price="unknown"} 3
`)
}

// Prices that are old, or made of rates, are shown apart, with their age.
func TestSavingsByOldPricesAreEstimates(t *testing.T) {
	m := newMarket(t, strings.Replace(sold, "2026-05-30", "2026-01-01", 1))
	m.workload("web", "a", half, "large-on-demand", "large-spot", "unheard-spot")
	m.requireMetrics(t, `
berth_mix_price_age_seconds{source="file"} 1.308960012345679e+07
berth_mix_price_age_seconds{source="rates"} 1.2627360012345679e+08
berth_mix_prices_last_read_successful 1
berth_mix_savings_dollars_per_hour{estimate="true",kind="available",mix="web",namespace="shop"} 0
berth_mix_savings_dollars_per_hour{estimate="true",kind="floor",mix="web",namespace="shop"} 0.075
berth_mix_savings_dollars_per_hour{estimate="true",kind="saved",mix="web",namespace="shop"} 0.103301
berth_mix_savings_pods{mix="web",namespace="shop",price="estimate"} 3
`)
}

func TestWithoutPricesThereAreNoSavings(t *testing.T) {
	m := newMarket(t, sold)
	m.workload("web", "a", half, "large-on-demand", "large-spot")
	book := m.reading.Book
	m.reading = prices.Reading{}
	m.requireMetrics(t, "") // another process leads
	m.reading = prices.Reading{Began: true, Problem: "away"}
	m.requireMetrics(t, "berth_mix_prices_last_read_successful 0\n")
	m.reading.Book = book
	m.Store = workloads.NewStore() // not every workload was reconciled yet
	m.workload("web", "a", half, "large-on-demand", "large-spot")
	m.requireMetrics(t, "berth_mix_prices_last_read_successful 0\n")
}

// A scrape of 100,000 pods of 10,000 workloads, each with a mix of its own, on 2,000 nodes.
func BenchmarkSavings(b *testing.B) {
	m := newMarket(b, sold)
	for i := range 10_000 {
		nodes := make([]string, 10)
		for k := range nodes {
			nodes[k] = fmt.Sprintf("large-%s/%d", []string{"on-demand", "spot"}[k%2], (10*i+k)%2000)
		}
		m.workload(fmt.Sprintf("mix-%d", i), fmt.Sprintf("w-%d", i), half, nodes...)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(&SavingsCollector{
		Workloads: m.Store, Node: m.node, Prices: func() prices.Reading { return m.reading }, Clock: clocktesting.NewFakePassiveClock(noon),
	})
	b.ReportAllocs()
	for b.Loop() {
		families, err := registry.Gather()
		require.NoError(b, err)
		for _, f := range families {
			_, err := expfmt.MetricFamilyToText(io.Discard, f)
			require.NoError(b, err)
		}
	}
}

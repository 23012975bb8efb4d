// SPDX-License-Identifier: Apache-2.0

package status

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/utils/clock"

	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/internal/mix/savings"
)

// SavingsCollector shows what the workloads of each mix save as metrics, at the prices that were read last. The sums are made at a scrape:
// they need no memory between two of them, and have what is there.
type SavingsCollector struct {
	Workloads *workloads.Store
	// Node returns a node of the cluster state, which keeps offerings.
	Node func(name string) clusterstate.Node
	// Prices returns the last reading. Nothing began where another process leads.
	Prices func() prices.Reading
	Clock  clock.PassiveClock
}

var (
	savingsDesc = prometheus.NewDesc("berth_mix_savings_dollars_per_hour",
		"What the replicas save on spot nodes (saved), would save in spot slots (available), and would save without the floor (floor).",
		[]string{"namespace", "mix", "kind", "estimate"}, nil)
	savingsPodsDesc = prometheus.NewDesc("berth_mix_savings_pods",
		"Pods by their price: current, estimate, reserved (paid for in any case) or unknown, which is in no amount.",
		[]string{"namespace", "mix", "price"}, nil)
	priceAgeDesc = prometheus.NewDesc("berth_mix_price_age_seconds",
		"Age of the oldest price that a pod has, by source.", []string{"source"}, nil)
	pricesReadDesc = prometheus.NewDesc("berth_mix_prices_last_read_successful",
		"1 if the last reading of prices succeeded.", nil, nil)
)

// Describe implements prometheus.Collector.
func (*SavingsCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{savingsDesc, savingsPodsDesc, priceAgeDesc, pricesReadDesc} {
		ch <- d
	}
}

// Labels that many metrics have, made once.
var (
	ofSaved, ofAvailable, ofFloor = label("kind", "saved"), label("kind", "available"), label("kind", "floor")
	ofCurrent, ofEstimate         = label("estimate", "false"), label("estimate", "true")

	pricedNow, pricedByEstimate = label("price", "current"), label("price", "estimate")
	pricedAsReserved, unpriced  = label("price", "reserved"), label("price", "unknown")
)

// Collect implements prometheus.Collector.
func (c *SavingsCollector) Collect(ch chan<- prometheus.Metric) {
	r, now := c.Prices(), c.Clock.Now()
	if !r.Began {
		return
	}
	success := 0.0
	if r.Problem == "" {
		success = 1
	}
	ch <- &gauge{desc: pricesReadDesc, value: success}
	if r.Book == nil || !c.Workloads.Complete() {
		return
	}
	m := savings.NewMeter(r.Book, c.node, now)
	for _, namespace := range c.Workloads.Namespaces() {
		byMix := map[string]*savings.Sums{}
		for _, w := range c.Workloads.Replicas(namespace) {
			if byMix[w.Mix] == nil {
				byMix[w.Mix] = &savings.Sums{}
			}
			addReplicas(m, byMix[w.Mix], &w)
		}
		for mix, s := range byMix {
			collectSavings(ch, s, namespace, mix)
		}
	}
	for origin, date := range m.Dates() {
		ch <- &gauge{priceAgeDesc, []*dto.LabelPair{label("source", string(origin))}, max(0, now.Sub(date).Seconds())}
	}
}

// node is what costs depend on of a node that has an offering.
func (c *SavingsCollector) node(name string) (of savings.Node, there bool) {
	n := c.Node(name)
	if n.Offered == nil {
		return of, false
	}
	return savings.Node{
		Offering: n.Offered.Offering, Labels: n.Offered.Labels, Type: n.Type.String(), MilliCPU: n.CPU, MemoryForPods: n.Memory,
	}, true
}

func addReplicas(m *savings.Meter, s *savings.Sums, w *workloads.Replicas) {
	for i := range w.Assignments {
		a := &w.Assignments[i]
		r := savings.Replica{Type: a.Wants.String(), Floor: w.Split.IsFloor(a.Slot)}
		if a.Pods == nil {
			addPod(m, s, a.Pod, &r)
			continue
		}
		for _, p := range a.Pods {
			addPod(m, s, p, &r)
		}
	}
}

func addPod(m *savings.Meter, s *savings.Sums, p *clusterstate.Pod, r *savings.Replica) {
	m.Add(s, &savings.Pod{Node: p.Node, MilliCPU: p.CPU, Memory: p.Memory}, r)
}

// collectSavings shows the sums of one mix. Amounts without a pod that has such a price are not shown: they are not 0.
func collectSavings(ch chan<- prometheus.Metric, s *savings.Sums, namespace, mix string) {
	name, in := label("mix", mix), label("namespace", namespace)
	for _, part := range [...]struct {
		estimate *dto.LabelPair
		of       *savings.Figures
	}{{ofCurrent, &s.Current}, {ofEstimate, &s.Estimated}} {
		f := part.of
		if f.Priced == 0 {
			continue
		}
		gauges := [...]gauge{
			{savingsDesc, []*dto.LabelPair{part.estimate, ofSaved, name, in}, f.Saved},
			{savingsDesc, []*dto.LabelPair{part.estimate, ofAvailable, name, in}, f.Available},
			{savingsDesc, []*dto.LabelPair{part.estimate, ofFloor, name, in}, f.Floor},
		}
		for i := range gauges {
			ch <- &gauges[i]
		}
	}
	for _, pods := range [...]struct {
		price *dto.LabelPair
		n     int
	}{
		{pricedNow, s.Current.Priced - s.Current.Reserved},
		{pricedByEstimate, s.Estimated.Priced},
		{pricedAsReserved, s.Current.Reserved},
		{unpriced, s.Unpriced},
	} {
		if pods.n > 0 {
			ch <- &gauge{savingsPodsDesc, []*dto.LabelPair{name, in, pods.price}, float64(pods.n)}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package savings_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/internal/mix/savings"
)

var now = time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)

const spot, onDemand = "spot", "on-demand"

// mostUnpriced is how many reasons a report has.
const mostUnpriced = 20

// scene is a cluster of nodes with 10 cores and 10 GiB at $1 and, as spot, $0.25 an hour.
type scene struct {
	nodes    []*corev1.Node
	overview overview.Overview
}

func (s *scene) node(name, instanceType string, change ...func(*corev1.Node)) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelInstanceTypeStable: instanceType, corev1.LabelTopologyRegion: "here",
	}}}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10"), corev1.ResourceMemory: resource.MustParse("10Gi")}
	n.Status.Capacity = n.Status.Allocatable
	for _, c := range change {
		c(n)
	}
	s.nodes = append(s.nodes, n)
}

// pod adds a pod that requests a tenth of a node, in the slot of a workload.
func (s *scene) pod(w *overview.Workload, node, nodeType, slotType string, floor bool) {
	w.Slots = append(w.Slots, overview.Slot{
		Slot: len(w.Slots), Type: slotType, Floor: floor, Pod: fmt.Sprintf("%s-%d", w.Name, len(w.Slots)), Node: node, NodeType: nodeType,
		Requests: tenth,
	})
}

// tenth is what a pod requests: a tenth of a node.
var tenth = overview.Requests{MilliCPU: 1000, Memory: 1 << 30}

func book(t require.TestingT) *prices.Book {
	f, err := prices.ReadFile("prices.yaml", []byte("date: 2026-11-01\nnodes: [{instanceType: known, onDemand: 1, spot: 0.25}, {instanceType: half, onDemand: 1}]"))
	require.NoError(t, err)
	b, err := prices.New(prices.Options{File: f})
	require.NoError(t, err)
	return b
}

func web(namespace, name string) overview.Workload {
	return overview.Workload{Namespace: namespace, Kind: "Deployment", Name: name, Source: "capacitymix/" + name}
}

func (s *scene) report(t require.TestingT, by savings.By) *savings.Report {
	return s.overview.Savings(s.nodes, book(t), by, now)
}

func TestSavedAvailableAndThePriceOfTheFloor(t *testing.T) {
	s := &scene{}
	s.node("s", "known")
	s.node("o", "known")
	w := web("shop", "web")
	s.pod(&w, "s", spot, spot, false)
	s.pod(&w, "o", onDemand, onDemand, true)
	s.pod(&w, "o", onDemand, onDemand, false)
	s.pod(&w, "o", onDemand, spot, false)
	w.Slots = append(w.Slots, overview.Slot{Slot: 4, Type: spot})
	s.overview.Workloads = []overview.Workload{w}
	r := s.report(t, savings.ByWorkload)
	require.Len(t, r.Rows, 1)
	for _, f := range []savings.Figures{r.Total, r.Rows[0].Figures} {
		assert.Equal(t, 4, f.Replicas, "a slot without a pod costs nothing")
		assert.Equal(t, 4, f.Priced)
		for what, amounts := range map[string][2]float64{
			"cost": {0.325, f.Cost}, "cost on spot": {0.025, f.CostOnSpot}, "all on-demand": {0.4, f.AllOnDemand}, "saved": {0.075, f.Saved}, "available": {0.075, f.Available},
			"floor": {0.075, f.Floor},
		} {
			assert.InDelta(t, amounts[0], amounts[1], 1e-9, what)
		}
	}
	assert.Equal(t, []savings.Used{{prices.Source{Name: "prices.yaml", Date: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}, false, 4}}, r.Sources)
	assert.False(t, r.Estimate())
	assert.Empty(t, r.Unpriced)
}

func TestAPodOfAUnitCostsWhatItsNodeDoes(t *testing.T) {
	s := &scene{}
	s.node("s", "known")
	s.node("o", "known")
	w := web("shop", "model")
	unit := overview.Slot{Type: spot, Unit: "model-0", Pod: "model-0", NodeType: spot, Pods: []overview.UnitPod{
		{Pod: "model-0", Node: "s", NodeType: spot, Requests: tenth}, {Pod: "model-1", Node: "o", NodeType: onDemand, Requests: tenth},
	}}
	w.Slots = []overview.Slot{unit}
	s.overview.Workloads = []overview.Workload{w}
	r := s.report(t, savings.ByUnit)
	require.Len(t, r.Rows, 1)
	assert.Equal(t, "model-0", r.Rows[0].Unit)
	assert.Equal(t, [2]int{1, 2}, [2]int{r.Total.Replicas, r.Total.Pods})
	assert.InDelta(t, 0.125, r.Total.Cost, 1e-9)
	assert.InDelta(t, 0.075, r.Total.Available, 1e-9)
}

func TestWhatHasNoPriceIsInNoAmount(t *testing.T) {
	s := &scene{}
	s.node("half", "half")
	s.node("bare", "", func(n *corev1.Node) { n.Status.Allocatable, n.Status.Capacity = nil, nil })
	s.node("reserved", "known", func(n *corev1.Node) { n.Labels["karpenter.sh/capacity-type"] = "reserved" })
	s.node("known", "known")
	w := web("shop", "web")
	s.pod(&w, "half", onDemand, onDemand, true)
	s.pod(&w, "bare", onDemand, onDemand, true)
	s.pod(&w, "gone", "", onDemand, true)
	s.pod(&w, "", "", onDemand, true)
	s.pod(&w, "known", onDemand, onDemand, true)
	w.Slots[4].Requests = overview.Requests{}
	s.pod(&w, "reserved", onDemand, onDemand, true)
	s.pod(&w, "known", "unknown", onDemand, true)
	s.overview.Workloads = []overview.Workload{w}
	r := s.report(t, savings.ByWorkload)
	assert.Equal(t, savings.Figures{Replicas: 7, Pods: 7, Priced: 1, Reserved: 1}, r.Total, "reserved capacity is paid for in any case")
	assert.ElementsMatch(t, []savings.Unpriced{
		{"no spot price of half in here", 1},
		{"the node reports no CPU and memory", 1},
		{"the node was not read", 1},
		{"the pod has no node", 1},
		{"the pod requests no CPU and memory", 1},
		{"the node is of unknown type", 1},
	}, r.Unpriced)
}

func TestTheReasonsWithoutAPriceAreBounded(t *testing.T) {
	s := &scene{}
	w := web("shop", "web")
	for i := range 3 * mostUnpriced {
		name := fmt.Sprint("n", i)
		s.node(name, "half", func(n *corev1.Node) { n.Labels[corev1.LabelTopologyRegion] = name })
		s.pod(&w, name, onDemand, onDemand, false)
	}
	s.overview.Workloads = []overview.Workload{w}
	r := s.report(t, savings.ByWorkload)
	require.Len(t, r.Unpriced, mostUnpriced)
	pods := 0
	for _, u := range r.Unpriced {
		pods += u.Pods
	}
	assert.Equal(t, 3*mostUnpriced, pods)
}

func TestRatesMakeAnEstimate(t *testing.T) {
	s := &scene{}
	s.node("s", "nobody-has-it")
	w := web("shop", "web")
	s.pod(&w, "s", spot, spot, false)
	s.overview.Workloads = []overview.Workload{w}
	r := s.report(t, savings.ByWorkload)
	assert.Equal(t, 1, r.Total.Priced)
	assert.True(t, r.Estimate())
	assert.InDelta(t, 0.031611+0.004237, r.Total.AllOnDemand, 1e-9, "a core and a GiB")
}

// A program of the cluster has no price of a node that KWOK simulates: those of Karpenter's provider for KWOK are of no market.
func TestASimulatedNodeHasNoPriceOfTheCluster(t *testing.T) {
	m, err := prices.ReadMetrics("metrics.txt", now, strings.NewReader(
		"karpenter_cloudprovider_instance_type_offering_price_estimate{instance_type=\"m5.large\",capacity_type=\"spot\",zone=\"z\"} 0.01\n"))
	require.NoError(t, err)
	b, err := prices.New(prices.Options{Metrics: m})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   string
	}{
		"a machine":        {func(*corev1.Node) {}, "Karpenter's offerings from metrics.txt"},
		"its provider":     {func(n *corev1.Node) { n.Spec.ProviderID = "kwok://x" }, "AWS prices of ec2instances.info"},
		"its label":        {func(n *corev1.Node) { n.Labels["kwok.x-k8s.io/node"] = "fake" }, "AWS prices of ec2instances.info"},
		"its annotation":   {func(n *corev1.Node) { n.Annotations = map[string]string{"kwok.x-k8s.io/node": "fake"} }, "AWS prices of ec2instances.info"},
		"another provider": {func(n *corev1.Node) { n.Spec.ProviderID = "aws:///z/kwok" }, "Karpenter's offerings from metrics.txt"},
	} {
		s := &scene{}
		s.node("s", "m5.large", func(n *corev1.Node) {
			n.Labels[corev1.LabelTopologyRegion], n.Labels[corev1.LabelTopologyZone] = "us-east-1", "z"
		}, c.change)
		w := web("shop", "web")
		s.pod(&w, "s", spot, spot, false)
		s.overview.Workloads = []overview.Workload{w}
		var names []string
		for _, u := range s.overview.Savings(s.nodes, b, savings.ByWorkload, now).Sources {
			names = append(names, u.Name)
		}
		assert.Contains(t, names, c.want, name)
	}
}

// Two nodes whose prices one overlay changes have one source.
func TestPricesThatAnOverlayChangesAreOneSource(t *testing.T) {
	overlays := prices.ReadOverlays([]*unstructured.Unstructured{{Object: map[string]any{
		"metadata": map[string]any{"name": "cheap"}, "spec": map[string]any{"priceAdjustment": "-10%"},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "ValidationSucceeded", "status": "True"}}},
	}}})
	b, err := prices.New(prices.Options{Overlays: overlays})
	require.NoError(t, err)
	s, w := &scene{}, web("shop", "web")
	for _, name := range []string{"a", "b"} {
		s.node(name, "m5.large", func(n *corev1.Node) {
			n.Labels[corev1.LabelTopologyRegion], n.Labels["karpenter.sh/nodepool"] = "us-east-1", "web"
		})
		s.pod(&w, name, spot, spot, false)
	}
	s.overview.Workloads = []overview.Workload{w}
	r := s.overview.Savings(s.nodes, b, savings.ByWorkload, now)
	require.Len(t, r.Sources, 2)
	for _, u := range r.Sources {
		assert.Contains(t, u.Name, ", changed by NodeOverlay cheap")
		assert.Equal(t, 2, u.Pods)
		assert.True(t, u.Estimated, "the price that is changed is old")
	}
}

// Sums over workloads are those over mixes and namespaces; all on-demand is what is paid and what is saved; without spot nothing is saved.
func TestFiguresAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &scene{}
		s.node("spot-0", "known")
		s.node("on-demand-0", "known")
		s.node("none", "half")
		spots := 0
		for i := range rapid.IntRange(0, 6).Draw(t, "workloads") {
			w := web(fmt.Sprint("ns", i%2), fmt.Sprint("w", i))
			for range rapid.IntRange(0, 5).Draw(t, "pods") {
				on := rapid.SampledFrom([][2]string{{"spot-0", spot}, {"on-demand-0", onDemand}, {"none", onDemand}}).Draw(t, "node")
				wants := rapid.SampledFrom([]string{spot, onDemand}).Draw(t, "slot")
				if on[1] == spot {
					spots++
				}
				s.pod(&w, on[0], on[1], wants, wants == onDemand && rapid.Bool().Draw(t, "floor"))
			}
			s.overview.Workloads = append(s.overview.Workloads, w)
		}
		total := s.report(t, savings.ByWorkload).Total
		for _, by := range savings.All {
			r, sum := s.report(t, by), savings.Figures{}
			for i := range r.Rows {
				sum = plus(sum, r.Rows[i].Figures)
			}
			assert.True(t, near(sum, total) && near(r.Total, total), "%s: %+v, want %+v", by, sum, total)
		}
		assert.InDelta(t, total.AllOnDemand, total.Cost+total.Saved, 1e-9)
		assert.LessOrEqual(t, total.Available+total.Floor, total.Cost-total.CostOnSpot+1e-9)
		if spots == 0 {
			assert.Zero(t, total.Saved)
		}
	})
}

func plus(a, b savings.Figures) savings.Figures {
	return savings.Figures{
		Replicas: a.Replicas + b.Replicas, Pods: a.Pods + b.Pods, Priced: a.Priced + b.Priced, Reserved: a.Reserved + b.Reserved,
		Cost: a.Cost + b.Cost, CostOnSpot: a.CostOnSpot + b.CostOnSpot, AllOnDemand: a.AllOnDemand + b.AllOnDemand,
		Saved: a.Saved + b.Saved, Available: a.Available + b.Available, Floor: a.Floor + b.Floor,
	}
}

func near(a, b savings.Figures) bool {
	same := a.Replicas == b.Replicas && a.Pods == b.Pods && a.Priced == b.Priced
	for _, d := range []float64{
		a.Cost - b.Cost, a.CostOnSpot - b.CostOnSpot, a.AllOnDemand - b.AllOnDemand, a.Saved - b.Saved, a.Available - b.Available,
		a.Floor - b.Floor,
	} {
		same = same && math.Abs(d) < 1e-9
	}
	return same
}

func TestWhatIsSavedIsASentence(t *testing.T) {
	s := &scene{}
	s.node("s", "known")
	s.node("old", "nobody-has-it")
	s.node("reserved", "known", func(n *corev1.Node) { n.Labels["karpenter.sh/capacity-type"] = "reserved" })
	w := web("shop", "web")
	s.pod(&w, "s", spot, spot, false)
	s.pod(&w, "reserved", onDemand, onDemand, true)
	s.pod(&w, "", "", spot, false)
	s.overview.Workloads = []overview.Workload{w}
	r := s.report(t, savings.ByWorkload)
	assert.Equal(t, "Saved: $54.75 a month, 75% of $73.00 on on-demand nodes. Available: $0.00 more. Price of the floor: $0.00.", r.Summary())
	assert.Equal(t, []string{
		"Prices of 1 pod: prices.yaml, 2026-11-01, 28d old.",
		"1 pod runs on reserved capacity, which is paid for also without them.",
		"No price of 1 pod: the pod has no node.",
	}, r.Notes(now))
	s.overview.Workloads[0].Slots[0].Node = "old"
	assert.Contains(t, s.report(t, savings.ByWorkload).Notes(now)[0], "old: an estimate.")
	assert.Empty(t, (&savings.Report{}).Summary())
	for amount, want := range map[float64]string{0.01234: "$0.0123", 12.345: "$12.35", -0.5: "-$0.5000", -3: "-$3.00"} {
		assert.Equal(t, want, savings.Hourly(amount))
	}
}

// The sums of a meter are the figures of a report, however its prices are divided into estimates and others.
func TestAMeterAddsUpToTheReport(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &scene{}
		names := []string{"known", "half", "nobody-has-it", ""}
		for i, instanceType := range names {
			s.node(fmt.Sprint("spot-", i), instanceType)
			s.node(fmt.Sprint("on-demand-", i), instanceType, func(n *corev1.Node) {
				if rapid.Bool().Draw(t, "reserved") {
					n.Labels["karpenter.sh/capacity-type"] = "reserved"
				}
			})
		}
		var all []savings.Replica
		for range rapid.IntRange(0, 8).Draw(t, "replicas") {
			r := savings.Replica{Type: rapid.SampledFrom([]string{spot, onDemand}).Draw(t, "slot")}
			r.Floor = r.Type == onDemand && rapid.Bool().Draw(t, "floor")
			for range rapid.IntRange(0, 2).Draw(t, "pods") {
				on := rapid.SampledFrom([]string{spot, onDemand}).Draw(t, "type")
				node := fmt.Sprint(on, "-", rapid.IntRange(0, len(names)).Draw(t, "node")) // the last one is not there
				r.Pods = append(r.Pods, savings.Pod{Node: node, NodeType: on, MilliCPU: rapid.Int64Range(0, 12_000).Draw(t, "cpu")})
			}
			all = append(all, r)
		}
		report := savings.Of(slices.Values(all), s.nodes, book(t), now)
		m := savings.NewMeter(book(t), func(name string) (savings.Node, bool) {
			at := slices.IndexFunc(s.nodes, func(n *corev1.Node) bool { return n.Name == name })
			if at < 0 {
				return savings.Node{}, false
			}
			return savings.NodeOf(s.nodes[at]), true
		}, now)
		var sums savings.Sums
		for i := range all {
			for k := range all[i].Pods {
				m.Add(&sums, &all[i].Pods[k], &all[i])
			}
		}
		got := plus(sums.Current, sums.Estimated)
		got.Pods, got.Replicas = got.Pods+sums.Unpriced, report.Total.Replicas
		assert.True(t, near(got, report.Total), "%+v, want %+v", got, report.Total)
		assert.Equal(t, report.Total.Pods-report.Total.Priced, sums.Unpriced)
		assert.Equal(t, report.Total.Reserved, sums.Current.Reserved)
		estimated, oldest := false, time.Time{}
		for _, u := range report.Sources {
			if estimated = estimated || u.Estimated; oldest.IsZero() || u.Date.Before(oldest) {
				oldest = u.Date
			}
		}
		assert.Equal(t, estimated, sums.Estimated.Priced > 0)
		var dates []time.Time
		for _, date := range m.Dates() {
			dates = append(dates, date)
		}
		if len(dates) > 0 || !oldest.IsZero() {
			assert.Equal(t, oldest, slices.MinFunc(dates, time.Time.Compare))
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package status

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/rebalance"
)

var (
	statusWrites = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_mix_status_writes_total", Help: "Writes of the status of CapacityMixes.",
	})
	repairs = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_mix_annotation_repairs_total", Help: "Repairs of a pod's slot annotations.",
	})
	exchanges = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_mix_slot_exchanges_total", Help: "Exchanges of slots between two replicas, so that a scale-in empties nodes.",
	})
	undoneRepairs = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_mix_annotation_conflicts_total",
		Help: "Repairs of slot annotations that another client had undone. Each waits longer than the one before.",
	})
)

func init() { metrics.Registry.MustRegister(statusWrites, repairs, exchanges, undoneRepairs) }

// Collector shows the entries as metrics. What is gone from the store is gone
// from the metrics. An empty mix label is that of workloads that have their mix
// from annotations or by default. No label names a pod, a node or a workload.
type Collector struct {
	Workloads *workloads.Store
	Clock     clock.PassiveClock
}

var (
	podsDesc = prometheus.NewDesc("berth_mix_pods",
		"Replicas that have a node that is not departing, by the capacity type they run on: spot, on-demand or unknown.",
		[]string{"namespace", "mix", "type"}, nil)
	desiredDesc = prometheus.NewDesc("berth_mix_desired_pods",
		"Desired replicas by capacity type.", []string{"namespace", "mix", "type"}, nil)
	pendingDesc = prometheus.NewDesc("berth_mix_pending_pods",
		"Replicas without a node.", []string{"namespace", "mix"}, nil)
	departingDesc = prometheus.NewDesc("berth_mix_departing_pods",
		"Replicas on departing nodes.", []string{"namespace", "mix"}, nil)
	deviationDesc = prometheus.NewDesc("berth_mix_deviation_pods",
		"Replicas that would have to move for every workload to have its mix.", []string{"namespace", "mix"}, nil)
	outDesc = prometheus.NewDesc("berth_mix_unsatisfied_seconds",
		"How long the workload that is out of its mix for the longest time has been so; 0 if none is.", []string{"namespace", "mix"}, nil)
	blockedDesc = prometheus.NewDesc("berth_mix_blocked_workloads",
		"Workloads out of their mix of which no replica is moved, by reason.", []string{"namespace", "mix", "reason"}, nil)
	movingDesc = prometheus.NewDesc("berth_mix_moving_pods",
		"Replicas being moved: evicted, and their replacement not Ready yet.", []string{"namespace", "mix"}, nil)
	provisioningDesc = prometheus.NewDesc("berth_mix_placeholder_pods",
		"Placeholder pods that hold or request capacity for replicas on the wrong capacity type.", []string{"namespace", "mix"}, nil)
	overwrittenDesc = prometheus.NewDesc("berth_mix_overwritten_cost_pods",
		"Replicas whose deletion cost another client has overwritten, so that a scale-down is not exact.", []string{"namespace", "mix"}, nil)
	stormDesc = prometheus.NewDesc("berth_mix_spot_storm",
		"1 during a spot storm, in which nothing is moved.", nil, nil)
)

// Describe implements prometheus.Collector.
func (*Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		podsDesc, desiredDesc, pendingDesc, departingDesc, deviationDesc, outDesc, blockedDesc,
		movingDesc, provisioningDesc, overwrittenDesc, stormDesc,
	} {
		ch <- d
	}
}

// sums are the figures of one mix.
type sums struct {
	spot, onDemand, unknown, wantSpot, wantOnDemand int
	pending, departing, deviation, moving, holding  int
	overwritten                                     int
	out                                             float64
	blocked                                         map[string]int
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for _, namespace := range c.Workloads.Namespaces() { // the entries of all, which are copies, would be half of the memory of a scrape
		byMix := map[string]*sums{}
		for _, e := range c.Workloads.Namespace(namespace) {
			if byMix[e.Mix] == nil {
				byMix[e.Mix] = &sums{}
			}
			c.add(byMix[e.Mix], &e)
		}
		for mix, s := range byMix {
			s.collect(ch, namespace, mix)
		}
	}
	storm := 0.0
	if c.Workloads.Storm() {
		storm = 1
	}
	ch <- &gauge{desc: stormDesc, value: storm}
}

// Labels that many metrics have, made once.
var (
	ofSpot     = label("type", v1alpha1.CapacityTypeSpot)
	ofOnDemand = label("type", v1alpha1.CapacityTypeOnDemand)
	ofUnknown  = label("type", "unknown")
)

// collect shows the figures of one mix. Its metrics share their labels: with a
// set for each, a scrape of 10,000 mixes took twice the memory.
func (s *sums) collect(ch chan<- prometheus.Metric, namespace, mix string) {
	name, in := label("mix", mix), label("namespace", namespace)
	own := []*dto.LabelPair{name, in}
	spot, onDemand, unknown := []*dto.LabelPair{name, in, ofSpot}, []*dto.LabelPair{name, in, ofOnDemand}, []*dto.LabelPair{
		name, in,
		ofUnknown,
	}
	gauges := [...]gauge{
		{podsDesc, spot, float64(s.spot)},
		{podsDesc, onDemand, float64(s.onDemand)},
		{podsDesc, unknown, float64(s.unknown)},
		{desiredDesc, spot, float64(s.wantSpot)},
		{desiredDesc, onDemand, float64(s.wantOnDemand)},
		{pendingDesc, own, float64(s.pending)},
		{departingDesc, own, float64(s.departing)},
		{deviationDesc, own, float64(s.deviation)},
		{movingDesc, own, float64(s.moving)},
		{provisioningDesc, own, float64(s.holding)},
		{overwrittenDesc, own, float64(s.overwritten)},
		{outDesc, own, s.out},
	}
	for i := range gauges {
		ch <- &gauges[i]
	}
	for reason, n := range s.blocked {
		ch <- &gauge{blockedDesc, []*dto.LabelPair{name, in, label("reason", reason)}, float64(n)}
	}
}

// gauge is a metric with labels that are made already, in the order of their names.
type gauge struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	value  float64
}

// Desc implements prometheus.Metric.
func (g *gauge) Desc() *prometheus.Desc { return g.desc }

// Write implements prometheus.Metric.
func (g *gauge) Write(out *dto.Metric) error {
	out.Label, out.Gauge = g.labels, &dto.Gauge{Value: &g.value}
	return nil
}

func label(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

func (c *Collector) add(s *sums, e *rebalance.Entry) {
	g := &e.Group
	a, m := g.Actual(), g.Governing.Mix
	pending, departing, _ := g.Counts()
	s.spot, s.onDemand, s.unknown = s.spot+a.Spot, s.onDemand+a.OnDemand, s.unknown+a.Unknown
	s.wantSpot, s.wantOnDemand = s.wantSpot+m.Spot(g.Replicas), s.wantOnDemand+m.OnDemand(g.Replicas)
	s.pending, s.departing, s.moving = s.pending+pending, s.departing+departing, s.moving+moving(e)
	s.deviation += len(g.WrongSide())
	s.holding += len(e.Placeholders)
	s.overwritten += g.Overwritten()
	if !e.WrongSince.IsZero() {
		s.out = max(s.out, c.Clock.Since(e.WrongSince).Seconds())
	}
	if reason, _ := blocked(e); reason != "" {
		if s.blocked == nil {
			s.blocked = map[string]int{}
		}
		s.blocked[reason]++
	}
}

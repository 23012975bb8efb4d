// SPDX-License-Identifier: Apache-2.0

package optimum

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/sim/scenario"
	"berth.dev/berth/internal/sim/spottrace"
)

func pool(name, t string, cpu int64, dollars float64) scenario.NodePool {
	return scenario.NodePool{
		Name: name, CapacityType: t, CPU: *resource.NewQuantity(cpu, resource.DecimalSI), Memory: resource.MustParse("8Gi"), Pods: 110,
		LaunchSeconds: 60, DollarsPerHour: &dollars,
	}
}

func workload(replicas int32, cpu int64, mix *v1alpha1.CapacityMixSpec) scenario.Workload {
	return scenario.Workload{
		Name: "web", Replicas: replicas, Copies: 1, CPU: *resource.NewQuantity(cpu, resource.DecimalSI), Memory: resource.MustParse("1Gi"), Mix: mix,
	}
}

func of(d time.Duration, pools []scenario.NodePool, workloads ...scenario.Workload) *scenario.Scenario {
	return &scenario.Scenario{Duration: metav1.Duration{Duration: d}, NodePools: pools, Workloads: workloads}
}

func trace(t require.TestingT, csv string) *scenario.Availability {
	loaded, err := spottrace.Parse("trace.csv", strings.NewReader("seconds,available\n"+csv))
	require.NoError(t, err)
	return &scenario.Availability{Times: 1, Loaded: loaded}
}

func cost(t *testing.T, s *scenario.Scenario) float64 {
	t.Helper()
	o := Of(context.Background(), s)
	require.NotNil(t, o.Dollars, o.Note)
	return *o.Dollars
}

// Ten replicas of which two are on-demand, two on a node: a day of one on-demand and four spot nodes.
func TestTheOptimumOfAScenario(t *testing.T) {
	spot, onDemand := pool("spot", "spot", 4, 1), pool("on-demand", "on-demand", 4, 3)
	spot.Nodes, onDemand.Nodes = 20, 20
	mix := &v1alpha1.CapacityMixSpec{SpotPercent: 50, MinOnDemand: 1}
	s := of(24*time.Hour, []scenario.NodePool{spot, onDemand}, workload(10, 2, mix))
	assert.InDelta(t, 24*(3+4), cost(t, s), 1e-9, "the percentage does not count")
	assert.Equal(t, "The least cost of all wanted replicas, with all interruptions known in advance, is $168.00", Of(context.Background(), s).Note)
	assert.InDelta(t, 2.0, *Of(context.Background(), s).Ratio(new(336.0)), 1e-9)
	assert.Nil(t, Of(context.Background(), s).Ratio(nil))

	mix.MaxSpot = new(int32(4))
	assert.InDelta(t, 24*(3*3+2), cost(t, s), 1e-9, "no more than maxSpot are on spot nodes")
	mix.MaxSpot = nil
	s.Workloads[0].Events = []scenario.Event{{At: metav1.Duration{Duration: 12 * time.Hour}, Replicas: new(int32(4))}}
	assert.InDelta(t, 12*(3+4)+12*(3+1), cost(t, s), 1e-9)
	s.Workloads[0].Copies = 2
	assert.InDelta(t, 12*(3+9)+12*(3+3), cost(t, s), 1e-9, "one on-demand node has the floor of both")
	s.NodePools[0].Max = new(int32(1))
	assert.InDelta(t, 12*(27+1)+12*(9+1), cost(t, s), 1e-9)

	s.Workloads = append(s.Workloads, workload(1, 1, nil))
	assert.Contains(t, Of(context.Background(), s).Note, "a lower bound, with parts of nodes")
	s.NodePools[1].Max = new(int32(1))
	assert.Equal(t, Optimum{Note: "The least cost is unknown: after 1m0s, the nodes that can be there have no capacity for all replicas"}, Of(context.Background(), s))
	s.NodePools[1].DollarsPerHour = nil
	assert.Equal(t, Optimum{Note: "The least cost is unknown: node pool on-demand has no price"}, Of(context.Background(), s))
}

// The first hour is left out, as no node can be there. A replica then needs one node all the time.
func TestWhatNoPolicyCanHaveCostsNothing(t *testing.T) {
	onDemand := pool("on-demand", "on-demand", 4, 3)
	onDemand.LaunchSeconds = 3600
	s := of(24*time.Hour, []scenario.NodePool{onDemand}, workload(1, 2, nil))
	assert.InDelta(t, 23*3, cost(t, s), 1e-9)
	s.NodePools[0].Nodes = 1
	assert.InDelta(t, 24*3, cost(t, s), 1e-9)
	assert.Nil(t, Of(context.Background(), of(24*time.Hour, []scenario.NodePool{onDemand})).Ratio(new(1.0)), "a cost is no multiple of zero")
}

func TestTheNodesThatAPoolCanHave(t *testing.T) {
	p := pool("spot", "spot", 4, 1)
	for name, c := range map[string]struct {
		csv            string
		launch, notice int32
		nodes          int32
		max            *int32
		want           string
	}{
		"without nodes at the start, none is there before the launch": {"0,5\n9000,5\n", 60, 0, 0, nil, "0:0 60:5"},
		"nodes of the start are there":                                {"0,5\n9000,5\n", 60, 0, 2, nil, "0:2 60:5"},
		"a notice keeps nodes":                                        {"0,5\n1000,2\n9000,2\n", 60, 120, 5, nil, "0:5 1120:2"},
		"after a time without any, nodes are launched":                {"0,5\n1000,0\n2000,5\n9000,5\n", 60, 0, 5, nil, "0:5 1000:0 2052:5"},
		"a short time is not enough":                                  {"0,5\n1000,0\n2000,5\n2050,0\n9000,0\n", 60, 0, 5, nil, "0:5 1000:0"},
		"a short gap is bridged by a launch before it":                {"0,5\n1000,0\n1010,5\n9000,5\n", 60, 0, 5, nil, "0:5 1000:0 1010:5"},
		"max limits them":                                             {"0,5\n1000,2\n9000,2\n", 60, 0, 5, new(int32(3)), "0:3 1000:2"},
		"a notice longer than a gap hides it":                         {"0,5\n1000,3\n1010,4\n9000,4\n", 60, 120, 5, nil, "0:5 1120:4"},
	} {
		p.Availability, p.LaunchSeconds, p.NoticeSeconds, p.Nodes, p.Max = trace(t, c.csv), c.launch, c.notice, c.nodes, c.max
		var got []string
		for _, x := range most(&p) {
			got = append(got, fmt.Sprintf("%d:%d", int(x.at.Seconds()), x.n))
		}
		assert.Equal(t, c.want, strings.Join(got, " "), name)
	}
}

// drawn is a scenario small enough to try all sets of nodes and all places of pods. The nodes do not change.
func drawn(t *rapid.T, sameSize bool) *scenario.Scenario {
	s := of(time.Hour, nil)
	for i := range rapid.IntRange(1, 3).Draw(t, "pools") {
		kind := rapid.SampledFrom([]string{"spot", "on-demand"}).Draw(t, "type")
		p := pool(fmt.Sprint("p", i), kind, rapid.Int64Range(1, 5).Draw(t, "cpu"), float64(rapid.IntRange(0, 5).Draw(t, "price")))
		p.LaunchSeconds, p.Max = 0, new(rapid.Int32Range(0, 3).Draw(t, "max"))
		p.Pods = rapid.Int32Range(1, 4).Draw(t, "pods")
		s.NodePools = append(s.NodePools, p)
	}
	cpu := rapid.Int64Range(0, 3).Draw(t, "request")
	for range rapid.IntRange(1, 2).Draw(t, "workloads") {
		if !sameSize {
			cpu = rapid.Int64Range(0, 3).Draw(t, "request")
		}
		w := workload(rapid.Int32Range(0, 3).Draw(t, "replicas"), cpu, nil)
		if rapid.Bool().Draw(t, "mix") {
			w.Mix = &v1alpha1.CapacityMixSpec{SpotPercent: 50, MinOnDemand: rapid.Int32Range(0, 2).Draw(t, "floor")}
			if rapid.Bool().Draw(t, "limited") {
				w.Mix.MaxSpot = new(rapid.Int32Range(0, 2).Draw(t, "maxSpot"))
			}
		}
		s.Workloads = append(s.Workloads, w)
	}
	return s
}

// tried is the least cost of all sets of nodes with a place for each pod, infinite if there is none.
func tried(s *scenario.Scenario) float64 {
	least := math.Inf(1)
	nodes := make([]int32, len(s.NodePools))
	var choose func(pool int, dollars float64)
	choose = func(pool int, dollars float64) {
		if dollars >= least {
			return
		}
		if pool == len(nodes) {
			if placed(s, nodes) {
				least = dollars
			}
			return
		}
		for n := range *s.NodePools[pool].Max + 1 {
			nodes[pool] = n
			choose(pool+1, dollars+float64(n)**s.NodePools[pool].DollarsPerHour)
		}
	}
	choose(0, 0)
	return least
}

// placed tries all places of the pods on some nodes.
func placed(s *scenario.Scenario, nodes []int32) bool {
	type room struct {
		cpu, pods int64
		onDemand  bool
	}
	var rooms []room
	for i, n := range nodes {
		p := &s.NodePools[i]
		for range n {
			rooms = append(rooms, room{p.CPU.Value(), int64(p.Pods), !p.Spot()})
		}
	}
	type pod struct {
		cpu      int64
		onDemand bool
	}
	var pods []pod
	for i := range s.Workloads {
		w, floor := &s.Workloads[i], int32(0)
		if w.Mix != nil {
			floor = min(w.Mix.MinOnDemand, w.Replicas)
			if w.Mix.MaxSpot != nil {
				floor = max(floor, w.Replicas-*w.Mix.MaxSpot)
			}
		}
		for n := range w.Replicas {
			pods = append(pods, pod{w.CPU.Value(), n < floor})
		}
	}
	var place func(n int) bool
	place = func(n int) bool {
		if n == len(pods) {
			return true
		}
		for i := range rooms {
			r, before := &rooms[i], rooms[i]
			if r.pods == 0 || r.cpu < pods[n].cpu || pods[n].onDemand && !r.onDemand || slices.Contains(rooms[:i], before) {
				continue
			}
			r.pods, r.cpu = r.pods-1, r.cpu-pods[n].cpu
			if place(n + 1) {
				return true
			}
			*r = before
		}
		return false
	}
	return place(0)
}

func TestPropertyTheOptimumOfPodsOfOneSizeIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawn(t, true)
		want, got := tried(s), Of(context.Background(), s)
		if math.IsInf(want, 1) {
			require.Nil(t, got.Dollars)
			return
		}
		require.NotNil(t, got.Dollars, got.Note)
		require.InDelta(t, want, *got.Dollars, 1e-9)
	})
}

func TestPropertyNoSetOfNodesCostsLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawn(t, false)
		if want, got := tried(s), Of(context.Background(), s); !math.IsInf(want, 1) {
			require.NotNil(t, got.Dollars, got.Note)
			require.LessOrEqual(t, *got.Dollars, want+1e-9)
		}
	})
}

// More nodes never cost more, and parts of nodes cost no more than whole ones.
func TestPropertyMoreNodesCostNoMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spot := pool("spot", "spot", 4, rapid.Float64Range(0, 2).Draw(t, "spot price"))
		spot.NoticeSeconds, spot.LaunchSeconds = rapid.Int32Range(0, 300).Draw(t, "notice"), rapid.Int32Range(0, 300).Draw(t, "launch")
		onDemand := pool("on-demand", "on-demand", 8, rapid.Float64Range(0, 4).Draw(t, "price"))
		onDemand.LaunchSeconds = 0 // or else the first minute costs something with more nodes only
		s := of(time.Hour, []scenario.NodePool{spot, onDemand},
			workload(rapid.Int32Range(0, 40).Draw(t, "replicas"), 1, &v1alpha1.CapacityMixSpec{MinOnDemand: rapid.Int32Range(0, 3).Draw(t, "floor")}))
		var fewer, more strings.Builder
		at := 0
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			n := rapid.IntRange(0, 6).Draw(t, "nodes")
			fmt.Fprintf(&fewer, "%d,%d\n", at, n)
			fmt.Fprintf(&more, "%d,%d\n", at, n+rapid.IntRange(0, 3).Draw(t, "more"))
			at += rapid.IntRange(1, 900).Draw(t, "lasts")
		}
		for _, b := range []*strings.Builder{&fewer, &more} {
			fmt.Fprintf(b, "%d,0\n", 100_000)
		}
		s.NodePools[0].Availability = trace(t, fewer.String())
		less := Of(context.Background(), s)
		require.NotNil(t, less.Dollars, less.Note)
		s.NodePools[0].Availability = trace(t, more.String())
		require.LessOrEqual(t, *Of(context.Background(), s).Dollars, *less.Dollars+1e-9)

		sizes := sizesOf(s)
		for _, x := range timelineOf(s, sizes).situations(context.Background(), s, sizes) {
			parts, fits := x.fraction()
			whole, wholeFits := x.whole()
			require.Equal(t, fits, wholeFits)
			require.True(t, !fits || parts <= whole+1e-9, "%f parts, %f whole", parts, whole)
		}
	})
}

// A scenario of the largest numbers is computed in a moment, and without more than a bounded work.
func TestTheWorkIsBounded(t *testing.T) {
	pools := []scenario.NodePool{pool("on-demand", "on-demand", 4, 3)}
	for i := range 999 {
		p := pool(fmt.Sprint("spot-", i), "spot", 4, float64(i))
		var csv strings.Builder
		for n := range 100 {
			fmt.Fprintf(&csv, "%d,%d\n", n*(i+1), n%2)
		}
		p.Availability = trace(t, csv.String()+"10000000,0\n")
		pools = append(pools, p)
	}
	s := of(365*24*time.Hour, pools, workload(60_000, 1, nil))
	assert.Equal(t, "The least cost is unknown: there are too many changes and node pools", Of(context.Background(), s).Note)
	s.NodePools = s.NodePools[:200]
	begin := time.Now()
	assert.Contains(t, Of(context.Background(), s).Note, "a lower bound, with parts of nodes")
	assert.Less(t, time.Since(begin), time.Minute)
}

func TestTheOptimumEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("interrupted"))
	o := Of(ctx, of(24*time.Hour, []scenario.NodePool{pool("on-demand", "on-demand", 4, 3)}, workload(1, 2, nil)))
	assert.Nil(t, o.Dollars)
	assert.Equal(t, "The least cost is unknown: interrupted", o.Note)
}

// Nodes of a pool of a fixed size cost, whatever runs on them.
func TestTheOptimumOfAFixedPoolIsALowerBound(t *testing.T) {
	s := of(24*time.Hour, []scenario.NodePool{pool("on-demand", "on-demand", 4, 3)}, workload(1, 1, nil))
	s.NodePools[0].Nodes, s.NodePools[0].Fixed = 5, true
	assert.Contains(t, Of(context.Background(), s).Note, "a lower bound, without the nodes of pools of a fixed size that no replica needs")
}

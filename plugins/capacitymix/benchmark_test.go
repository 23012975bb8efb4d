// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/test/plugintest"
)

const (
	benchNodes  = 5000
	benchGroups = 1000
	benchPods   = 19 // per group, bound; slot 19 of the mix is a spot slot
)

// benchFixture is a cluster of 5,000 nodes, one in five on-demand, and 1,000
// groups of 19 bound pods each, with one pod each to place.
func benchFixture(b *testing.B, sample int32, changes ...func(*v1alpha1.CapacityMix)) (*fixture, []*corev1.Pod) {
	b.Helper()
	nodes := make([]*corev1.Node, benchNodes)
	for i := range nodes {
		nodes[i] = plugintest.Node(plugintest.NodeName("node", i), map[bool]string{true: "on-demand", false: "spot"}[i%5 == 0])
		nodes[i].Labels[corev1.LabelTopologyZone] = fmt.Sprint("zone-", i%3)
	}
	pods := make([]*corev1.Pod, benchGroups)
	known := make([]runtime.Object, benchGroups)
	for g := range pods {
		pods[g] = plugintest.Pod(fmt.Sprint("app-", g), benchPods)
		pods[g].Labels["tier"] = "all"
		known[g] = pods[g]
	}
	args := plugintest.Args()
	args.NodeSampleSize = sample
	f := newFixture(b, args, nodes, known...)
	cm := plugintest.CapacityMix("all", 70, 2, changes...)
	cm.Spec.Selector.MatchLabels = map[string]string{"tier": "all"}
	if err := f.plugin.Mixes.Set(cm); err != nil {
		b.Fatal(err)
	}
	for g, pod := range pods {
		m, _ := f.plugin.resolver.Resolve(pod)
		member, _ := f.plugin.Member(pod, m)
		for i := range benchPods {
			b := ledger.Bound{UID: plugintest.Pod(fmt.Sprint("app-", g), i).UID, Member: member, Claimed: i, Node: nodes[(g*benchPods+i)%benchNodes].Name}
			if member.Group.Owner() == "" { // all are one group
				b.Claimed = g*benchPods + i
			}
			f.plugin.Ledger.Observe(b)
		}
	}
	return f, pods
}

func BenchmarkPreFilter(b *testing.B) {
	for name, sample := range map[string]int32{"without sample": 0, "sample of 16": 16, "sample of 32": 32, "sample of 100": 100} {
		b.Run(name, func(b *testing.B) {
			f, pods := benchFixture(b, sample)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				state := framework.NewCycleState()
				if _, status := f.plugin.PreFilter(f.ctx, state, pods[i%benchGroups], nil); !status.IsSuccess() {
					b.Fatal(status)
				}
			}
		})
	}
	b.Run("few nodes are outside quarantine", func(b *testing.B) {
		f, pods := benchFixture(b, 32)
		left := map[string]struct{}{}
		for i, info := range f.infos[:50] { // 40 of them are spot nodes
			n := info.Node().DeepCopy()
			n.Labels[corev1.LabelInstanceTypeStable], n.Labels[corev1.LabelTopologyZone] = "left", fmt.Sprint("left-", i%3)
			f.plugin.Ledger.SetNode(n)
			left[capacity.Domain(n.Labels, f.plugin.Args.SpreadSpotOver)] = struct{}{}
		}
		domains := map[string]time.Time{}
		for n := range f.plugin.Ledger.Nodes() {
			domain := capacity.Domain(n.Labels(), f.plugin.Args.SpreadSpotOver)
			if _, is := left[domain]; !is {
				domains[domain] = time.Unix(1, 0)
			}
		}
		f.plugin.Ledger.Quarantine(domains)
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			state := framework.NewCycleState()
			result, status := f.plugin.PreFilter(f.ctx, state, pods[i%benchGroups], nil)
			if !status.IsSuccess() || result.AllNodes() {
				b.Fatal("no sample: ", status)
			}
		}
	})
	b.Run("pod without a mix", func(b *testing.B) {
		f, _ := benchFixture(b, 0)
		bystander := plugintest.Pod("bystander", 0)
		state := framework.NewCycleState()
		b.ReportAllocs()
		b.ResetTimer()
		for range b.N {
			if _, status := f.plugin.PreFilter(f.ctx, state, bystander, nil); !status.IsSkip() {
				b.Fatal(status)
			}
		}
	})
}

func BenchmarkFilterAndScore(b *testing.B) {
	f, pods := benchFixture(b, 0)
	state := framework.NewCycleState()
	pod := pods[0]
	if _, status := f.plugin.PreFilter(f.ctx, state, pod, nil); !status.IsSuccess() {
		b.Fatal(status)
	}
	wants := readState(state).slotType
	accepted, rejected := f.infos[:0:0], f.infos[:0:0]
	for _, info := range f.infos {
		if typeOf(f, info.Node().Name) == wants {
			accepted = append(accepted, info)
		} else {
			rejected = append(rejected, info)
		}
	}
	// What it costs to come by the node's name in this loop, without the plugin:
	// in a scheduling cycle the plugins before have had it in their hands.
	b.Run("the walk alone", func(b *testing.B) {
		b.ReportAllocs()
		n := 0
		for i := range b.N {
			name := accepted[i%len(accepted)].Node().Name
			n += int(name[len(name)-1])
		}
		if n == 0 {
			b.Fatal("no nodes")
		}
	})
	b.Run("Filter accepts", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			if status := f.plugin.Filter(f.ctx, state, pod, accepted[i%len(accepted)]); status != nil {
				b.Fatal(status)
			}
		}
	})
	b.Run("Filter rejects", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			if status := f.plugin.Filter(f.ctx, state, pod, rejected[i%len(rejected)]); status == nil {
				b.Fatal("accepted")
			}
		}
	})
	b.Run("Filter, one node again and again", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if status := f.plugin.Filter(f.ctx, state, pod, accepted[0]); status != nil {
				b.Fatal(status)
			}
		}
	})
	if status := f.plugin.PreScore(f.ctx, state, pod, accepted[:100]); !status.IsSuccess() && !status.IsSkip() {
		b.Fatal(status)
	}
	b.Run("Score", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			if _, status := f.plugin.Score(f.ctx, state, pod, accepted[i%100]); status != nil {
				b.Fatal(status)
			}
		}
	})
	b.Run("PreScore of 100 nodes", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			f.plugin.PreScore(f.ctx, state, pod, accepted[:100])
		}
	})
}

// BenchmarkGroups is what the mix adds to a cycle for 1,000 owners of 20 pods, where each is a group and where all are one.
func BenchmarkGroups(b *testing.B) {
	for name, change := range map[string]func(*v1alpha1.CapacityMix){"controller": func(*v1alpha1.CapacityMix) {}, "selector": bySelector} {
		b.Run(name, func(b *testing.B) {
			f, pods := benchFixture(b, 32, change)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				state, pod := framework.NewCycleState(), pods[i%benchGroups]
				if _, status := f.plugin.PreFilter(f.ctx, state, pod, nil); !status.IsSuccess() {
					b.Fatal(status)
				}
				node := map[capacity.Type]string{capacity.OnDemand: "node-0", capacity.Spot: "node-1"}[readState(state).slotType]
				if status := f.plugin.Reserve(f.ctx, state, pod, node); status != nil {
					b.Fatal(status)
				}
				f.plugin.Unreserve(f.ctx, state, pod, node)
			}
		})
	}
}

func BenchmarkReserveAndUnreserve(b *testing.B) {
	f, pods := benchFixture(b, 0)
	states := make([]*framework.CycleState, benchGroups)
	for g, pod := range pods {
		states[g] = framework.NewCycleState()
		if _, status := f.plugin.PreFilter(f.ctx, states[g], pod, nil); !status.IsSuccess() {
			b.Fatal(status)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		g := i % benchGroups
		if status := f.plugin.Reserve(f.ctx, states[g], pods[g], "node-1"); status != nil {
			b.Fatal(status)
		}
		f.plugin.Unreserve(f.ctx, states[g], pods[g], "node-1")
	}
}

// What a Filter or Score call may cost: nothing on the heap.
func TestFilterAndScoreAllocateNothing(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	f := newFixture(t, plugintest.Args(), twoNodes, pod)
	f.mix(t, plugintest.CapacityMix("web", 100, 0))
	state, _ := f.filter(t, pod)
	f.plugin.PreScore(f.ctx, state, pod, f.infos)
	if n := testing.AllocsPerRun(100, func() { f.plugin.Filter(f.ctx, state, pod, f.infos[0]) }); n != 0 {
		t.Errorf("Filter of an accepted node: %v allocations, want 0", n)
	}
	if n := testing.AllocsPerRun(100, func() { f.plugin.Score(f.ctx, state, pod, f.infos[0]) }); n != 0 {
		t.Errorf("Score: %v allocations, want 0", n)
	}
}

// SPDX-License-Identifier: Apache-2.0

// Package controller_test measures what the companion controller computes,
// without an API server: the controllers themselves, on a fake clock, with a
// cache in memory. docs/performance.md has the figures.
package controller_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/rebalance"
	"berth.dev/berth/controllers/mix/rebalance/stepqueue"
	"berth.dev/berth/controllers/mix/status"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	decision "berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/simulation"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/fakes"
	"berth.dev/berth/test/perf/bench"
)

// cluster is a cluster state with its controllers.
type cluster struct {
	size
	clock        *clocktesting.FakeClock
	clusterState *clusterstate.State
	entries      *workloads.Store
	cache        *fakes.Cache
	store        *governing.Registry
	status       *status.Controller
	rebalancer   *rebalance.Controller
	queue        *stepqueue.Queue
	requests     *fake.Clientset
	// decisions counts the workloads that were decided, composed the statuses, which took composing.
	decisions, composed int
	composing           time.Duration
	// owners is the heap that the Deployments and ReplicaSets take.
	owners uint64
}

func newCluster(tb testing.TB, s size) *cluster {
	tb.Helper()
	log.SetLogger(logr.Discard())
	classifier, err := capacity.NewClassifier(capacity.DefaultRules())
	require.NoError(tb, err)
	c := &cluster{
		size: s, entries: workloads.NewStore(), cache: fakes.NewCache(), store: governing.NewRegistry(),
		clock: clocktesting.NewFakeClock(began.Add(time.Hour)), requests: &fake.Clientset{},
	}
	c.status = status.New(status.Options{Client: c.cache, Workloads: c.entries, Mixes: c.store, Clock: c.clock, RepairsPerMinute: 60, Kube: c.requests})
	o := clusterstate.Options{Classifier: classifier, Conventions: governing.Conventions{Prefixes: []string{governing.PrefixBerth}}, Mixes: c.store}
	o.Changed = func(key governing.GroupKey) { c.rebalancer.Changed(key) }
	o.NodeLeft = func(d clusterstate.Departure) { c.rebalancer.NodeLeft(d) }
	c.clusterState = clusterstate.New(o)
	c.rebalancer, err = rebalance.New(rebalance.Options{
		State: c.clusterState, Workloads: c.entries, Reader: c.cache, Client: c.requests, Clock: c.clock, Recorder: &record.FakeRecorder{},
		Profile: &simulation.Profile{SchedulerNames: []string{builders.Scheduler}}, Resync: 30 * time.Second,
		Decided: func(d workloads.Decision) { c.decided(tb, d) },
		// Replicas would move, and stay where they are: a move is I/O, which this does not measure.
		Tuning: rebalance.Tuning{
			Defaults:             decision.Settings{Mode: decision.Evict, MaxConcurrent: 1, Stabilization: 365 * 24 * time.Hour},
			ClusterMaxConcurrent: 5, MoveTimeout: 10 * time.Minute, Backoff: time.Minute, MaxBackoff: time.Hour,
		},
	})
	require.NoError(tb, err)
	c.queue = stepqueue.New(c.rebalancer.Order(), c.clock)
	for i := range s.nodes {
		c.clusterState.SetNode(node(i))
	}
	before := builders.Heap()
	for w := range s.workloads {
		d, rs := controllersOf(s, w)
		c.clusterState.SetOwner(d)
		c.clusterState.SetOwner(rs)
	}
	c.owners = builders.Heap() - before
	for w := range s.workloads {
		cm := builders.CapacityMix(app(w), rule.SpotPercent, rule.MinOnDemand)
		cm.Namespace, cm.UID, cm.Generation = s.namespace(w), uid(4, w, 0), 1
		require.NoError(tb, c.store.Set(cm))
		c.cache.Set(cm)
	}
	return c
}

// decided does what the queue of the status does.
func (c *cluster) decided(tb testing.TB, d workloads.Decision) {
	began := time.Now()
	c.decisions += len(d.Groups)
	for _, req := range c.status.Wanted(d) {
		c.composed++
		if _, err := c.status.Reconcile(tb.Context(), req); err != nil {
			tb.Fatal(err) // the time that require takes would be part of the figures
		}
	}
	c.composing += time.Since(began)
}

func (c *cluster) fill() {
	for w := range c.workloads {
		for i := range podsPerWorkload {
			c.clusterState.SetPod(pod(c.size, w, i))
		}
	}
	c.rebalancer.Use(c.queue) // once everything is synced, as a leader does
}

// drain reconciles what is due.
func (c *cluster) drain(tb testing.TB) { c.queue.Drain(tb.Context(), c.rebalancer) }

// resync reconciles everything.
func (c *cluster) resync(tb testing.TB) {
	tb.Helper()
	c.rebalancer.Changed(governing.GroupKey{})
	c.drain(tb)
}

// running is a cluster that has been reconciled.
func running(tb testing.TB, s size) *cluster {
	tb.Helper()
	c := newCluster(tb, s)
	c.fill()
	c.resync(tb)
	return c
}

func (c *cluster) requireNoRequests(tb testing.TB, writes int) {
	tb.Helper()
	require.Empty(tb, c.requests.Actions())
	require.Equal(tb, writes, c.cache.Writes, "writes of statuses")
}

// BenchmarkFirstReconcile is what a new leader does once everything is synced: it
// decides about every workload and writes every status.
func BenchmarkFirstReconcile(b *testing.B) {
	for _, s := range []size{small, large} {
		b.Run(s.name, func(b *testing.B) {
			var cpu time.Duration
			for b.Loop() {
				b.StopTimer()
				c := newCluster(b, s)
				c.fill()
				b.StartTimer()
				began := bench.ProcessorTime()
				c.resync(b)
				cpu += bench.ProcessorTime() - began
				require.Equal(b, s.workloads, c.cache.Writes)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*s.workloads), "ns/workload")
			b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N*s.workloads), "cpu-ns/workload")
		})
	}
}

// BenchmarkResync reconciles everything when nothing has changed.
func BenchmarkResync(b *testing.B) {
	for _, s := range []size{small, large, crowded} {
		b.Run(s.name, func(b *testing.B) {
			c := running(b, s)
			writes := c.cache.Writes
			b.ReportAllocs()
			began := bench.ProcessorTime()
			for b.Loop() {
				c.resync(b)
			}
			per(b, began, s.workloads, "workload")
			c.requireNoRequests(b, writes)
		})
	}
}

// BenchmarkPodEvent changes one pod, decides about its workload and composes the status of its mix: of one that satisfies its
// mix, and of one that does not. The controller does not reconcile for each event, as this does: events of a workload that
// come together are one.
func BenchmarkPodEvent(b *testing.B) {
	for _, s := range []size{small, large, crowded} {
		b.Run(s.name, func(b *testing.B) { podEvents(b, s, 7) })
	}
	for _, s := range []size{small, large} {
		b.Run("out-of-mix/"+s.name, func(b *testing.B) { podEvents(b, s, 20) })
	}
}

func podEvents(b *testing.B, s size, w int) {
	b.Helper()
	c := running(b, s)
	p := []*corev1.Pod{pod(s, w, 3), pod(s, w, 3)}
	p[1].Status.Conditions[0].Status = corev1.ConditionFalse
	i, writes := 0, c.cache.Writes
	c.decisions, c.composed, c.composing = 0, 0, 0
	b.ReportAllocs()
	began := bench.ProcessorTime()
	for b.Loop() {
		i++
		c.clusterState.SetPod(p[i%2])
		c.drain(b)
	}
	per(b, began, 1, "event")
	b.ReportMetric(float64((b.Elapsed()-c.composing).Nanoseconds())/float64(b.N), "ns/decision")
	require.Equal(b, []int{i, i}, []int{c.decisions, c.composed}, "its workload, for each event")
	c.requireNoRequests(b, writes)
}

// BenchmarkPodUpdate is what the watch costs for a pod update that changes nothing that counts.
func BenchmarkPodUpdate(b *testing.B) {
	c := newCluster(b, small)
	c.fill()
	p := pod(small, 7, 3)
	b.ReportAllocs()
	for b.Loop() {
		c.clusterState.SetPod(p)
	}
}

// BenchmarkStorm changes every pod once within a second, in the order of their workloads and mixed. A workload is reconciled
// once in each debounce.
func BenchmarkStorm(b *testing.B) {
	const windows = 5 // of 200 ms
	for _, order := range []string{"in-order", "mixed"} {
		b.Run(order, func(b *testing.B) {
			c := running(b, small)
			n := small.workloads * podsPerWorkload
			states := [2][]*corev1.Pod{make([]*corev1.Pod, n), make([]*corev1.Pod, n)}
			for i := range n {
				k := i
				if order == "mixed" {
					k = i * 7919 % n
				}
				states[0][i], states[1][i] = pod(small, k/podsPerWorkload, k%podsPerWorkload), pod(small, k/podsPerWorkload, k%podsPerWorkload)
				states[1][i].Status.Conditions[0].Status = corev1.ConditionFalse
			}
			round, most := 0, 0
			var cpu time.Duration
			for b.Loop() {
				round++
				began := bench.ProcessorTime()
				for window := range windows {
					for _, p := range states[round%2][window*n/windows : (window+1)*n/windows] {
						c.clusterState.SetPod(p)
					}
					c.decisions = 0
					c.drain(b)
					most = max(most, c.decisions)
				}
				cpu += bench.ProcessorTime() - began
			}
			require.LessOrEqual(b, most, small.workloads, "reconciles of one workload in a window")
			b.ReportMetric(100*cpu.Seconds()/float64(b.N), "%core")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/event")
		})
	}
}

// per reports wall and processor time of each of n things in an iteration. On a
// machine with other work beside it, the latter is the better figure.
func per(b *testing.B, began time.Duration, n int, unit string) {
	b.Helper()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/"+unit)
	b.ReportMetric(float64((bench.ProcessorTime()-began).Nanoseconds())/float64(b.N*n), "cpu-ns/"+unit)
}

// BenchmarkReclaim has one node in ten begin to depart at once, all of them spot,
// and decides about every workload on them.
func BenchmarkReclaim(b *testing.B) {
	for _, s := range []size{small, large} {
		b.Run(s.name, func(b *testing.B) {
			c := running(b, s)
			var nodes [2][]*corev1.Node
			for i := 1; i < s.nodes && len(nodes[0]) < s.nodes/10; i += 5 {
				going := node(i)
				going.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}
				nodes[0], nodes[1] = append(nodes[0], going), append(nodes[1], node(i))
			}
			round := 0
			for b.Loop() {
				c.decisions = 0
				for _, n := range nodes[round%2] {
					c.clusterState.SetNode(n)
				}
				c.drain(b)
				round++
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms")
			b.ReportMetric(float64(c.decisions), "workloads")
		})
	}
}

// BenchmarkMemory fills a cluster state and reports what its pods hold on to, and with
// what the controllers keep of their workloads.
func BenchmarkMemory(b *testing.B) {
	for _, s := range []size{small, large} {
		b.Run(s.name, func(b *testing.B) {
			pods := float64(s.workloads * podsPerWorkload)
			for b.Loop() {
				c := newCluster(b, s)
				before := builders.Heap()
				c.fill()
				records := float64(builders.Heap() - before)
				c.resync(b)
				all := float64(builders.Heap() - before)
				b.ReportMetric(records/pods, "B/pod")
				b.ReportMetric(all/pods, "B/pod-decided")
				b.ReportMetric(all/(1<<20), "MiB")
				b.ReportMetric(float64(c.owners)/float64(s.workloads), "B/workload")
				runtime.KeepAlive(c)
			}
		})
	}
}

// BenchmarkScrape gathers the metrics of all mixes, as whoever gets /metrics
// does, and reports what is held until the answer is written.
func BenchmarkScrape(b *testing.B) {
	for _, s := range []size{small, large} {
		b.Run(s.name, func(b *testing.B) {
			c := running(b, s)
			registry := prometheus.NewRegistry()
			registry.MustRegister(&status.Collector{Workloads: c.entries, Clock: c.clock})
			before := builders.Heap()
			b.ReportAllocs()
			for b.Loop() {
				families, err := registry.Gather()
				require.NoError(b, err)
				b.StopTimer()
				b.ReportMetric(float64(builders.Heap()-before)/(1<<20), "MiB")
				runtime.KeepAlive(families)
				b.StartTimer()
			}
		})
	}
}

// What the benchmarks measure is what happens.
func TestWhatIsMeasured(t *testing.T) {
	s := size{"", 20, 2, 10}
	c := running(t, s)
	require.Equal(t, 20, c.cache.Writes)
	require.Equal(t, 20, c.decisions)
	wrong := 0
	for _, e := range c.entries.All() {
		if !e.Settled() {
			require.Equal(t, decision.ReasonStabilizing, e.Verdict.Reason)
			wrong++
		}
	}
	require.Equal(t, 2, wrong, "one workload in ten is out of its mix")
	c.decisions, c.composed = 0, 0
	c.resync(t)
	require.Equal(t, []int{2, 2}, []int{c.decisions, c.composed}, "the others are settled")
	c.requireNoRequests(t, 20)

	c.decisions = 0
	going := pod(s, 7, 3)
	c.clusterState.DeletePod(types.NamespacedName{Namespace: going.Namespace, Name: going.Name}, "")
	c.drain(t)
	require.Equal(t, 1, c.decisions)
	require.Equal(t, 21, c.cache.Writes)
	cm := c.cache.Mix(s.namespace(7), app(7))
	require.Equal(t, v1alpha1.ReplicaSplit{Spot: 7, OnDemand: 3}, *cm.Status.Desired)
	require.Equal(t, int32(9), cm.Status.Actual.Spot+cm.Status.Actual.OnDemand)
	require.Equal(t, fmt.Sprint(1), fmt.Sprint(cm.Status.Workloads[0].Pending))
}

// SPDX-License-Identifier: Apache-2.0

// Package controller_test measures what the companion controller computes,
// without an API server: docs/performance.md has the figures.
package controller_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/board"
	"berth.dev/berth/controllers/capacitymix"
	"berth.dev/berth/internal/capacity"
	"berth.dev/berth/internal/fleet"
	"berth.dev/berth/internal/mix"
	"berth.dev/berth/internal/policy"
	"berth.dev/berth/internal/rebalance"
	"berth.dev/berth/test/builders"
)

const podsPerWorkload = 10

var (
	began = time.Unix(1_750_000_000, 0)
	rule  = mix.New(70, 2)
)

// size is a cluster: every workload has 10 pods and a CapacityMix of its own.
type size struct {
	name                         string
	workloads, namespaces, nodes int
}

var sizes = []size{
	{"1,000 workloads", 1_000, 100, 500},
	{"10,000 workloads", 10_000, 1_000, 5_000},
}

// oneNamespace is the worst case for what is looked at per namespace.
var oneNamespace = size{"1,000 workloads in one namespace", 1_000, 1, 500}

// mixes are the CapacityMixes as a cache has them; what is written to them is kept.
type mixes struct {
	client.Client
	byName map[types.NamespacedName]*v1alpha1.CapacityMix
	writes int
}

func (m *mixes) Get(_ context.Context, name client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	m.byName[name].DeepCopyInto(into.(*v1alpha1.CapacityMix))
	return nil
}

func (m *mixes) Status() client.SubResourceWriter { return statusWriter{m: m} }

type statusWriter struct {
	client.SubResourceWriter
	m *mixes
}

func (w statusWriter) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	w.m.writes++
	into := w.m.byName[client.ObjectKeyFromObject(o)]
	into.Status = v1alpha1.CapacityMixStatus{}
	return kruntime.DefaultUnstructuredConverter.FromUnstructured(o.(*unstructured.Unstructured).Object["status"].(map[string]any), &into.Status)
}

// cluster is a fleet with all that looks at it.
type cluster struct {
	fleet  *fleet.Fleet
	board  *board.Board
	mixes  *mixes
	status *capacitymix.Reconciler
}

func at[T any](list []T, i int) T { return list[i%len(list)] }

func newCluster(tb testing.TB, s size) *cluster {
	tb.Helper()
	log.SetLogger(logr.Discard())
	classifier, err := capacity.NewClassifier(capacity.DefaultRules())
	require.NoError(tb, err)
	store := policy.NewStore()
	c := &cluster{board: board.New(), mixes: &mixes{byName: map[types.NamespacedName]*v1alpha1.CapacityMix{}}}
	c.fleet = fleet.New(fleet.Options{Classifier: classifier, Prefixes: []string{policy.PrefixBerth}, Mixes: store})
	c.status = capacitymix.New(capacitymix.Options{Client: c.mixes, Board: c.board, Clock: clocktesting.NewFakePassiveClock(began.Add(time.Hour))})
	for i := range s.nodes {
		c.fleet.SetNode(node(i))
	}
	for w := range s.workloads {
		cm := builders.CapacityMix(app(w), rule.SpotPercent, rule.MinOnDemand)
		cm.Namespace = s.namespace(w)
		require.NoError(tb, store.Set(cm))
		c.mixes.byName[client.ObjectKeyFromObject(cm)] = cm
		d, rs := controllersOf(s, w)
		c.fleet.SetOwner(d)
		c.fleet.SetOwner(rs)
	}
	return c
}

func app(w int) string { return fmt.Sprintf("service-%05d", w) }

func (s size) namespace(w int) string { return fmt.Sprintf("team-%04d", w%s.namespaces) }

// node: every fifth is on-demand.
func node(i int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: map[string]string{"karpenter.sh/capacity-type": nodeType(i).String()}}}
	n.Status.Allocatable = builders.Requests("16", "64Gi")
	n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
	return n
}

func nodeType(i int) capacity.Type {
	if i%5 == 0 {
		return capacity.OnDemand
	}
	return capacity.Spot
}

func nodeName(i int) string {
	return fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i/250, i%250)
}

func nodeFor(s size, t capacity.Type, i int) string {
	i = 5 * (i % (s.nodes / 5))
	if t == capacity.Spot {
		i += 1 + i/5%4
	}
	return nodeName(i)
}

func controllersOf(s size, w int) (*appsv1.Deployment, *appsv1.ReplicaSet) {
	d := builders.Deployment(app(w), podsPerWorkload)
	d.Namespace, d.UID, d.Generation = s.namespace(w), uid(1, w, 0), 1
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: podsPerWorkload, UpdatedReplicas: podsPerWorkload}
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: d.Namespace, Name: app(w) + "-7dd8c6474c", UID: uid(2, w, 0), Generation: 1,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name, UID: d.UID, Controller: new(true)}},
	}}
	rs.Spec.Replicas, rs.Status.Replicas = d.Spec.Replicas, podsPerWorkload
	return d, rs
}

func uid(kind, w, i int) types.UID {
	return types.UID(fmt.Sprintf("%08x-%04x-4c6d-9a3e-%012x", w, kind, i))
}

// pod is a bound, Ready pod as the scheduler leaves it. One workload in ten has
// its highest spot slot borrowed.
func pod(s size, w, i int) *corev1.Pod {
	on := rule.TypeOf(i)
	if w%10 == 0 && i == podsPerWorkload-1 {
		on = capacity.OnDemand
	}
	rs := app(w) + "-7dd8c6474c"
	p := builders.Pod(app(w), fmt.Sprintf("%s-%05d", rs, i*7919%100_000))
	p.Namespace, p.UID, p.CreationTimestamp = s.namespace(w), uid(3, w, i), metav1.NewTime(began.Add(time.Duration(w*podsPerWorkload+i)*time.Millisecond))
	p.Labels = map[string]string{
		"app": app(w), "app.kubernetes.io/name": app(w), "app.kubernetes.io/instance": app(w), "app.kubernetes.io/part-of": "shop",
		"app.kubernetes.io/managed-by": "Helm", "pod-template-hash": "7dd8c6474c",
	}
	p.Annotations = map[string]string{
		v1alpha1.SlotAnnotation: strconv.Itoa(i), v1alpha1.CapacityTypeAnnotation: rule.TypeOf(i).String(),
		v1alpha1.MixAnnotation: "capacitymix/" + app(w), v1alpha1.PodDeletionCostAnnotation: "-" + strconv.Itoa(i),
		"prometheus.io/scrape": "true", "checksum/config": "0123456789abcdef",
	}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: rs, UID: uid(2, w, 0), Controller: new(true)}}
	p.Spec.NodeName = nodeFor(s, on, w*podsPerWorkload+i)
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(began)}}
	return p
}

func (c *cluster) fill(s size) {
	for w := range s.workloads {
		for i := range podsPerWorkload {
			c.fleet.SetPod(pod(s, w, i))
		}
	}
}

// look does for a namespace what the controller does when it has changed: every
// group is found and decided about, and the status of every mix is composed.
func (c *cluster) look(tb testing.TB, namespace string) (moves int) {
	seen := map[policy.GroupKey]bool{}
	for _, g := range c.fleet.Groups(namespace) {
		seen[g.Key] = true
		e, _ := c.board.Get(g.Key)
		e.Group, e.Mix = g.Going(nil), g.Policy.Source[len(policy.SourceCapacityMix):]
		in := &rebalance.Input{
			Cluster:  rebalance.Cluster{Now: began.Add(time.Hour), Limit: 5, SchedulerNames: []string{builders.Scheduler}},
			Settings: rebalance.Settings{Mode: rebalance.Evict, MaxConcurrent: 1},
			Group:    e.Group, MayFit: c.fleet.MayFit,
		}
		in.Cluster.InFlight, in.History.InFlight = c.board.InFlight(namespace, e.Mix)
		e.Verdict = rebalance.Choose(in)
		if e.Verdict.Reason == rebalance.ReasonMove {
			moves++
		}
		c.board.Put(e)
	}
	c.board.Retain(namespace, seen)
	for _, e := range c.board.Namespace(namespace) {
		_, err := c.status.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: e.Mix}})
		require.NoError(tb, err)
	}
	return moves
}

func (c *cluster) lookAtAll(tb testing.TB) (moves int) {
	for _, ns := range c.fleet.Namespaces() {
		moves += c.look(tb, ns)
	}
	return moves
}

// BenchmarkEvaluation looks at every workload once per operation.
func BenchmarkEvaluation(b *testing.B) {
	for _, s := range append(sizes, oneNamespace) {
		b.Run(s.name, func(b *testing.B) {
			c := newCluster(b, s)
			c.fill(s)
			require.Equal(b, s.workloads/10, c.lookAtAll(b), "one workload in ten is out of its mix")
			writes := c.mixes.writes
			b.ReportAllocs()
			for b.Loop() {
				c.lookAtAll(b)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*s.workloads), "ns/workload")
			require.Equal(b, writes, c.mixes.writes, "what has not changed is not written again")
		})
	}
}

// BenchmarkPodEvent changes one pod and looks at its namespace.
func BenchmarkPodEvent(b *testing.B) {
	for _, s := range append(sizes, oneNamespace) {
		b.Run(s.name, func(b *testing.B) {
			c := newCluster(b, s)
			c.fill(s)
			c.lookAtAll(b)
			p := []*corev1.Pod{pod(s, 7, 3), pod(s, 7, 3)}
			p[1].Status.Conditions[0].Status = corev1.ConditionFalse
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				i++
				c.fleet.SetPod(at(p, i))
				c.look(b, s.namespace(7))
			}
		})
	}
}

// BenchmarkPodUpdate is what the watch costs for a pod update that changes nothing that counts.
func BenchmarkPodUpdate(b *testing.B) {
	c := newCluster(b, sizes[0])
	c.fill(sizes[0])
	p := pod(sizes[0], 7, 3)
	b.ReportAllocs()
	for b.Loop() {
		c.fleet.SetPod(p)
	}
}

// BenchmarkMemory fills a fleet and reports what its pods hold on to.
func BenchmarkMemory(b *testing.B) {
	for _, s := range sizes {
		b.Run(s.name, func(b *testing.B) {
			pods := float64(s.workloads * podsPerWorkload)
			for b.Loop() {
				c := newCluster(b, s)
				before := heap()
				c.fill(s)
				held := float64(heap() - before)
				b.ReportMetric(held/pods, "B/pod")
				b.ReportMetric(held/(1<<20), "MiB")
				runtime.KeepAlive(c)
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// What the benchmarks measure is what the controller does.
func TestOneWorkloadInTenIsOutOfItsMix(t *testing.T) {
	s := size{"", 20, 2, 10}
	c := newCluster(t, s)
	c.fill(s)
	require.Equal(t, 2, c.lookAtAll(t))
	require.Equal(t, 20, c.mixes.writes)
	c.lookAtAll(t)
	require.Equal(t, 20, c.mixes.writes)
	for _, cm := range c.mixes.byName {
		require.Equal(t, int32(1), cm.Status.WorkloadCount)
	}
}

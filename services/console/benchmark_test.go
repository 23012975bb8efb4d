// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	pages "berth.dev/berth/internal/console"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/test/perf/bench"
)

const (
	benchWorkloads, benchPods, benchNodes, benchPages = 1000, 10_000, 500, 100
)

// fleet has what a cache keeps of 1,000 workloads of 10 pods on 500 nodes. It lists as a cache does, with copies of the structs.
type fleet struct {
	mu          sync.Mutex
	pods        []*corev1.Pod
	nodes       []*corev1.Node
	mixes       []*v1alpha1.CapacityMix
	replicaSets []*appsv1.ReplicaSet
	deployments []*appsv1.Deployment
}

func leanOf[T any](b *testing.B, o T) T {
	b.Helper()
	kept, err := clusterstate.Lean(o)
	require.NoError(b, err)
	return kept.(T)
}

func newFleet(b *testing.B) *fleet {
	b.Helper()
	f := &fleet{}
	for i := range benchNodes {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), Labels: map[string]string{
			"karpenter.sh/capacity-type": []string{"spot", "on-demand"}[i%2], corev1.LabelTopologyZone: "a",
			corev1.LabelInstanceTypeStable: "m5.4xlarge", corev1.LabelTopologyRegion: "us-east-1",
		}}}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("60Gi")}
		n.Status.Capacity = n.Status.Allocatable
		f.nodes = append(f.nodes, leanOf(b, n))
	}
	for i := range benchWorkloads {
		name, namespace := fmt.Sprint("web-", i), fmt.Sprint("team-", i%20)
		app := map[string]string{"app": name}
		f.mixes = append(f.mixes, &v1alpha1.CapacityMix{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("mix" + name)},
			Spec:       v1alpha1.CapacityMixSpec{Selector: v1alpha1.PodSelector{MatchLabels: app}, SpotPercent: 70, MinOnDemand: 2},
		})
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("d" + name)}}
		rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID("rs" + name),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		}}
		d.Spec.Replicas, rs.Spec.Replicas, rs.Status.Replicas = new(int32(10)), new(int32(10)), 10
		f.deployments, f.replicaSets = append(f.deployments, leanOf(b, d)), append(f.replicaSets, leanOf(b, rs))
		for j := range benchPods / benchWorkloads {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: fmt.Sprint(name, "-", j), UID: types.UID(fmt.Sprint("pod-", i, "-", j)), Labels: map[string]string{"app": name},
				Annotations:     map[string]string{v1alpha1.SlotAnnotation: fmt.Sprint(j)},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
			}}
			p.Spec.NodeName, p.Spec.SchedulerName = f.nodes[(2*(i*10+j)+map[bool]int{true: 1}[j < 3])%benchNodes].Name, "berth-scheduler"
			p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi"),
			}}}}
			p.Status.Phase = corev1.PodRunning
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			f.pods = append(f.pods, leanOf(b, p))
		}
	}
	return f
}

func (f *fleet) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

func (f *fleet) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch list := list.(type) {
	case *corev1.PodList:
		list.Items = copies(f.pods)
	case *corev1.NodeList:
		list.Items = copies(f.nodes)
	case *v1alpha1.CapacityMixList:
		list.Items = copies(f.mixes)
	case *appsv1.ReplicaSetList:
		list.Items = copies(f.replicaSets)
	case *appsv1.DeploymentList:
		list.Items = copies(f.deployments)
	}
	return nil
}

func copies[T any](all []*T) []T {
	out := make([]T, len(all))
	for i := range all {
		out[i] = *all[i]
	}
	return out
}

// change has a pod of the first workload on another node of the same type, or one of the last workload on a node of the other type and back,
// so that it becomes the first workload and the last again.
func (f *fleet) change(b *testing.B, i int, sameType bool) {
	b.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	of, at := 0, 2*i
	if !sameType {
		of, at = len(f.pods)-1, i
	}
	p := f.pods[of].DeepCopy()
	p.Spec.NodeName = f.nodes[(1+at)%benchNodes].Name
	f.pods[of] = p
}

// reading reads a fleet as a source does, without what it has read before.
type reading struct {
	fleet    *fleet
	settings *overview.Settings
	took     atomic.Int64
}

func (r *reading) Read(ctx context.Context) (*overview.Reading, error) {
	began := time.Now()
	defer func() { r.took.Add(int64(time.Since(began))) }()
	return live.Read(ctx, &reader{objects: r.fleet, granted: rights(1<<len(kinds) - 1).of(listingsOf("", nil))}, r.settings, "")
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkReading is a reading of 1,000 workloads with 10,000 pods on 500 nodes, and what the objects and a reading take of memory.
func BenchmarkReading(b *testing.B) {
	before := heap()
	f := newFleet(b)
	objects := heap() - before
	settings, err := live.Defaults()
	require.NoError(b, err)
	r := &reading{fleet: f, settings: settings}
	b.ReportAllocs()
	var last *overview.Reading
	for b.Loop() {
		last, err = r.Read(b.Context())
		require.NoError(b, err)
	}
	b.ReportMetric(float64(objects)/1e6, "MB-objects")
	b.ReportMetric(float64(heap()-before)/1e6, "MB-objects+reading")
	require.Len(b, last.Overview.Workloads, benchWorkloads)
	runtime.KeepAlive(f)
}

// BenchmarkPages is a second with 100 open pages while one workload changes: what each page gets, and the processor time, the pages' own
// included. The interval is that of the shipped configuration.
func BenchmarkPages(b *testing.B) {
	b.Run("rows that change", func(b *testing.B) { benchmarkPages(b, true) })
	b.Run("rows that move", func(b *testing.B) { benchmarkPages(b, false) })
}

func benchmarkPages(b *testing.B, sameType bool) {
	b.Helper()
	f := newFleet(b)
	settings, err := live.Defaults()
	require.NoError(b, err)
	r := &reading{fleet: f, settings: settings}
	shown := pages.New(pages.Options{Source: r, Interval: 2 * time.Second, Log: discard()})
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go shown.Run(ctx)
	s := httptest.NewServer(shown)
	defer func() {
		cancel()
		s.CloseClientConnections()
		s.Close()
	}()
	get := func() (first time.Duration, sent int) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, http.NoBody)
		require.NoError(b, err)
		request.Header.Set("Accept-Encoding", "gzip")
		began := time.Now()
		response, err := http.DefaultTransport.RoundTrip(request)
		require.NoError(b, err)
		defer response.Body.Close()
		first = time.Since(began)
		body, err := io.ReadAll(response.Body)
		require.NoError(b, err)
		_, err = gzip.NewReader(strings.NewReader(string(body)))
		require.NoError(b, err, "pages are compressed")
		return first, len(body)
	}
	get()
	first, sent := get()
	var received, events atomic.Int64
	for range benchPages {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/stream?page=%2F", http.NoBody)
		require.NoError(b, err)
		response, err := http.DefaultTransport.RoundTrip(request)
		require.NoError(b, err)
		go func() {
			defer response.Body.Close()
			lines := bufio.NewScanner(response.Body)
			lines.Buffer(nil, 16<<20)
			for lines.Scan() {
				received.Add(int64(len(lines.Bytes())))
				events.Add(1)
			}
		}()
	}
	waitFor(b, 5*time.Second) // each page has got all at first
	began, used := time.Now(), bench.ProcessorTime()
	at := received.Load()
	i := 0
	for b.Loop() {
		i++
		f.change(b, i/2, sameType) // one change for each reading
		waitFor(b, time.Second)
	}
	readings := time.Since(began).Seconds() / 2
	b.ReportMetric((bench.ProcessorTime()-used).Seconds()/time.Since(began).Seconds()*100, "%core")
	b.ReportMetric(float64(received.Load()-at)/readings/benchPages, "B/page/reading")
	b.ReportMetric(float64(first.Milliseconds()), "ms-first-byte")
	b.ReportMetric(float64(sent)/1e3, "kB-page")
}

// waitFor lets time pass: the benchmark measures what happens meanwhile.
func waitFor(b *testing.B, d time.Duration) {
	b.Helper()
	select {
	case <-time.After(d):
	case <-b.Context().Done():
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

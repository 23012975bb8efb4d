// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/test/builders"
)

const (
	benchPods  = 10000
	benchNodes = 500
	// heldBudget is the memory that a snapshot of that size may hold. The whole controller has 100 MB.
	heldBudget = 5 << 20
)

// large generates the pods of a cluster as API objects, 20 per workload.
func large() ([]*corev1.Node, func(yield func(*corev1.Pod))) {
	nodes := make([]*corev1.Node, benchNodes)
	for i := range nodes {
		nodes[i] = stripNode(node(fmt.Sprintf("node-%04d", i), "64", inZone(fmt.Sprint("zone-", i%3))))
	}
	return nodes, func(yield func(*corev1.Pod)) {
		for i := range benchPods {
			yield(largePod(i, nodes[i%benchNodes].Name))
		}
	}
}

func largePod(i int, onNode string) *corev1.Pod {
	app := fmt.Sprintf("app-%d", i/20)
	p := pod(fmt.Sprintf("%s-6d5f7c9b8d-%05d", app, i), onNode)
	p.UID = types.UID(fmt.Sprintf("7b0c7c1e-5d3e-4b56-9a53-%012d", i))
	p.Namespace = fmt.Sprintf("team-%d", i/20%50)
	p.Labels = map[string]string{
		"app": app, "pod-template-hash": "6d5f7c9b8d", "app.kubernetes.io/name": app,
		"app.kubernetes.io/part-of": "shop",
	}
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: app, UID: types.UID(app), Controller: new(true)}}
	p.Annotations = map[string]string{"a": string(make([]byte, 512))}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("512Mi"),
	}
	p.Spec.Containers = append(p.Spec.Containers, *p.Spec.Containers[0].DeepCopy())
	p.Spec.Containers[1].Name = "proxy"
	p.Spec.Volumes = []corev1.Volume{
		{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
	}
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"app": app},
		},
	}}
	if i%40 < 20 {
		p.Spec.Affinity = antiAffinity(corev1.LabelHostname)
		p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchLabels = map[string]string{
			"app": app,
		}
	}
	return p
}

// watchLarge returns the nodes, and a cluster state with the pods.
func watchLarge(t testing.TB) ([]*corev1.Node, *clusterstate.State) {
	t.Helper()
	nodes, each := large()
	watched := newWatched(t)
	each(watched.SetPod)
	return nodes, watched
}

func takeLarge(t testing.TB, nodes []*corev1.Node, watched *clusterstate.State) *Snapshot {
	t.Helper()
	s, err := newSnapshot(t.Context(), fake.NewClientset(), DefaultProfile(), pods{nodes: nodes, all: watched.Scheduled()})
	require.NoError(t, err)
	return s
}

func TestASnapshotOfALargeClusterStaysSmall(t *testing.T) {
	nodes, watched := watchLarge(t)
	takeLarge(t, nodes, watched).Close() // allocated once per process
	before := int64(builders.Heap())
	s := takeLarge(t, nodes, watched)
	held := int64(builders.Heap()) - before
	t.Logf("a snapshot of %d pods on %d nodes holds %.1f MiB", benchPods, benchNodes, float64(held)/(1<<20))
	require.Less(t, held, int64(heldBudget))
	s.Close()
	runtime.KeepAlive(watched)
}

// BenchmarkTake includes the requests and the decoding: held-B is the memory of the snapshot, peak-B the peak of
// allocations, including garbage.
func BenchmarkTake(b *testing.B) {
	server := httptest.NewServer(largeServer(b))
	defer server.Close()
	profile := DefaultProfile()
	before := int64(builders.Heap())
	var held, peak int64
	b.ReportAllocs()
	for b.Loop() {
		stop := watchHeap()
		s, err := Take(b.Context(), &rest.Config{Host: server.URL}, profile)
		require.NoError(b, err)
		b.StopTimer()
		require.Len(b, s.base.placed, benchPods)
		peak = max(peak, stop()-before)
		held = int64(builders.Heap()) - before
		s.Close()
		b.StartTimer()
	}
	b.ReportMetric(float64(held), "held-B")
	b.ReportMetric(float64(peak), "peak-B")
}

// watchHeap returns a function that returns the peak of the heap.
func watchHeap() (stop func() int64) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	done, most := make(chan struct{}), make(chan int64)
	go func() {
		var seen int64
		for {
			metrics.Read(sample)
			seen = max(seen, int64(sample[0].Value.Uint64()))
			select {
			case <-done:
				most <- seen
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() int64 { close(done); return <-most }
}

// largeServer serves the large cluster in pages, in protobuf.
func largeServer(b *testing.B) http.Handler {
	nodes, each := large()
	nodeList := &corev1.NodeList{}
	for _, n := range nodes {
		nodeList.Items = append(nodeList.Items, *n)
	}
	pages := []*corev1.PodList{}
	each(func(p *corev1.Pod) {
		if len(pages) == 0 || len(pages[len(pages)-1].Items) == pageSize {
			pages = append(pages, &corev1.PodList{})
		}
		last := pages[len(pages)-1]
		last.Items = append(last.Items, *p)
	})
	encoder := scheme.Codecs.EncoderForVersion(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), corev1.SchemeGroupVersion)
	bodies := map[string][]byte{}
	encode := func(path string, list kruntime.Object) {
		body, err := kruntime.Encode(encoder, list)
		require.NoError(b, err)
		bodies[path] = body
	}
	encode("/api/v1/nodes", nodeList)
	for i, page := range pages {
		if i < len(pages)-1 {
			page.Continue = strconv.Itoa(i + 1)
		}
		token := ""
		if i > 0 {
			token = strconv.Itoa(i)
		}
		encode("/api/v1/pods"+token, page)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if body, ok := bodies[req.URL.Path+req.URL.Query().Get("continue")]; ok {
			w.Header().Set("Content-Type", kruntime.ContentTypeProtobuf)
			_, _ = w.Write(body)
			return
		}
		w.Header().Set("Content-Type", kruntime.ContentTypeJSON)
		_, _ = w.Write([]byte(`{"metadata":{"resourceVersion":"7"},"items":[]}`))
	})
}

func BenchmarkFits(b *testing.B) {
	nodes, watched := watchLarge(b)
	s := takeLarge(b, nodes, watched)
	defer s.Close()
	for name, c := range map[string]struct {
		nodes func(*corev1.Node) bool
		cpu   string
	}{
		"TheFirstNode": {cpu: "1"},
		"NoNode":       {cpu: "63"},
	} {
		b.Run(name, func(b *testing.B) {
			p := largePod(0, "node-0000")
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(c.cpu)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Fits(b.Context(), Question{Pod: p, Gone: []types.UID{p.UID}, Nodes: c.nodes}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

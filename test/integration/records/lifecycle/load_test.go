// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

// work is how long a request takes of a processor.
const work = 50 * time.Millisecond

// pod is the one whose series Prometheus has.
const pod = "checkout-5d5f-abcde"

// worker is a function that serves as many requests at a time as it has replicas, and measures them.
type worker struct {
	replicas atomic.Int32
	serving  atomic.Int32
	free     *sync.Cond
	handler  http.Handler
	// served is the number of requests.
	served atomic.Int64
	// hasMemory has its kubelet report the memory.
	hasMemory atomic.Bool
}

// newWorker returns one whose series have the labels that a PodMonitor gives them.
func newWorker(namespace string) (*worker, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	w := &worker{free: sync.NewCond(&sync.Mutex{})}
	w.replicas.Store(1)
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "checkout_duration_seconds", Buckets: prometheus.DefBuckets}, nil)
	prometheus.WrapRegistererWith(prometheus.Labels{"namespace": namespace, "pod": pod}, registry).MustRegister(duration)
	w.handler = promhttp.InstrumentHandlerDuration(duration, http.HandlerFunc(w.serve))
	return w, registry
}

// kubelet serves what one would report of the worker: for 17 minutes it has used one processor, which is all that one replica can.
func (w *worker) kubelet(namespace string) http.HandlerFunc {
	next, began := time.Now().Add(-17*time.Minute).Truncate(time.Second), time.Now()
	labels := fmt.Sprintf("{namespace=%q,pod=%q,container=\"function\"}", namespace, pod)
	return func(rw http.ResponseWriter, _ *http.Request) {
		for ; next.Before(time.Now()); next = next.Add(5 * time.Second) {
			used := 10000 + min(0, next.Sub(began)).Seconds() + float64(w.served.Load())*work.Seconds()
			fmt.Fprintf(rw, "container_cpu_usage_seconds_total%s %v %d\n", labels, used, next.UnixMilli())
		}
		if w.hasMemory.Load() {
			fmt.Fprintf(rw, "container_memory_working_set_bytes%s %d\n", labels, 1<<20)
		}
	}
}

func (w *worker) serve(rw http.ResponseWriter, _ *http.Request) {
	w.free.L.Lock()
	for w.serving.Load() >= w.replicas.Load() {
		w.free.Wait()
	}
	w.serving.Add(1)
	w.free.L.Unlock()
	<-time.After(work)
	w.served.Add(1)
	w.free.L.Lock()
	w.serving.Add(-1)
	w.free.L.Unlock()
	w.free.Broadcast()
	rw.WriteHeader(http.StatusOK)
}

// load sends requests at a rate, each of which waits for a second at most, and keeps how long the last ones took.
func load(ctx context.Context, url string, every time.Duration) (latency func() time.Duration) {
	var last atomic.Int64
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			go func() {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				began := time.Now()
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
				if err != nil {
					return
				}
				if res, err := http.DefaultClient.Do(req); err == nil {
					res.Body.Close()
				}
				// An average, of which a tenth is the last one.
				last.Store(last.Load()*9/10 + int64(time.Since(began))/10)
			}()
		}
	}()
	return func() time.Duration { return time.Duration(last.Load()) }
}

// A function under load, scraped by Prometheus: the recommendation, the replicas that follow from it, and their effect.
func TestAFunctionUnderLoadGetsReplicas(t *testing.T) {
	s := &scene{World: testenv.New(t, cluster.Nodes("on-demand", 3)...)}
	w, registry := newWorker(s.Namespace)
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/", w.handler)
	function := httptest.NewServer(mux)
	t.Cleanup(function.Close)
	kubelet := httptest.NewServer(w.kubelet(s.Namespace))
	t.Cleanup(kubelet.Close)
	p, err := cluster.StartPrometheus(t.Context(), os.Stderr, cluster.PrometheusOptions{
		Dir: t.TempDir(), Targets: []string{strings.TrimPrefix(function.URL, "http://"), strings.TrimPrefix(kubelet.URL, "http://")},
	})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	s.ApplyFiles("manifests/rbac/records", "manifests/templates")
	s.run(withoutHPA, func(d *controller.Records) {
		d.Prometheus.URL = p.URL
		d.NFR.IntervalSeconds, d.NFR.StabilitySeconds, d.NFR.CooldownSeconds, d.NFR.MaxReplicas = 5, 1, 1, 10
	})

	// 30 requests a second are 1.5 cores: three replicas of half a core, where one serves 20 requests a second.
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	latency := load(ctx, function.URL, time.Second/30)
	r := enforced("checkout", "pay")
	f := &r.Spec.DeploymentUnit.Functions[0]
	f.MaxScale = new(int32(4))
	f.Metrics = &v1alpha1.FunctionMetrics{Source: v1alpha1.MetricsCustom, LatencyHistogram: "checkout_duration_seconds", Port: 9090}
	r.Spec.NFRRequirements = &v1alpha1.NFRRequirements{MaxLatencyMS: new(int32(250))}
	s.create(r)
	pods := s.deployment("checkout").Spec.Template.Annotations
	assert.Equal(t, []string{"true", "9090", "/metrics"}, []string{pods["prometheus.io/scrape"], pods["prometheus.io/port"], pods["prometheus.io/path"]})

	got := testenv.WaitFor(s.World, "checkout", "what is missing is named, and the latency is too high", func(r *v1alpha1.DeploymentRecord) bool {
		c, n := condition(r, v1alpha1.ConditionMetricsAvailable), r.Status.NFRCompliance
		return c.Reason == v1alpha1.ReasonMissingSeries && n != nil && n.Latency == v1alpha1.ComplianceViolated &&
			!strings.Contains(c.Message, "requests")
	})
	assert.Equal(t, `Prometheus has no data of function pay: memory (container_memory_working_set_bytes{namespace="`+s.Namespace+
		`",pod=~"checkout-.*",container!=""})`, condition(got, v1alpha1.ConditionMetricsAvailable).Message)
	assert.Greater(t, latency(), 250*time.Millisecond)

	s.Reaches("replicas", 3, func() int {
		n := *s.deployment("checkout").Spec.Replicas
		w.replicas.Store(n)
		w.free.Broadcast()
		return int(n)
	})
	s.Eventually("requests are served in time", func() (bool, string) { return latency() < 250*time.Millisecond, latency().String() })
	w.hasMemory.Store(true)
	testenv.WaitFor(s.World, "checkout", "all series are there", func(r *v1alpha1.DeploymentRecord) bool {
		return condition(r, v1alpha1.ConditionMetricsAvailable).Status == metav1.ConditionTrue
	})
}

// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
)

// thousand has 1,000 workloads of 10 replicas.
func thousand() *overview.Overview {
	var many []overview.Workload
	for i := range 1000 {
		many = append(many, workload(fmt.Sprint("team-", i%20), fmt.Sprint("web-", i)))
	}
	return overviewOf(many...)
}

// spread is thousand on 1,000 nodes. All workloads of team-0 are of one mix.
func spread() *overview.Overview {
	o := thousand()
	for i := range o.Workloads {
		w := &o.Workloads[i]
		if w.Namespace == "team-0" {
			w.Source = "capacitymix/web-0"
		}
		for j := range w.Slots {
			w.Slots[j].Node = fmt.Sprint("node-", (10*i+j)%1000)
		}
	}
	return o
}

// restOfThousand are the other objects of a reading of spread: 1,000 nodes, 1,000 mixes, and a policy of each namespace.
func restOfThousand(o *overview.Overview) (r overview.Reading) {
	r.Governed = map[[2]string][]overview.PolicyWorkload{}
	for i := range 1000 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), Labels: map[string]string{corev1.LabelTopologyZone: "zone-a"}}}
		status := overview.NodeStatus{Name: node.Name, Type: "spot", Domain: "zone-a/small", Accepts: true}
		r.Nodes = append(r.Nodes, overview.NodeDetail{NodeStatus: status, Node: node})
		mix := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("team-", i%20), Name: fmt.Sprint("web-", i), Generation: 1}}
		mix.Spec.SpotPercent, mix.Status.ObservedGeneration = 70, 1
		r.Mixes = append(r.Mixes, mix)
	}
	for i := range o.Workloads {
		w := &o.Workloads[i]
		policy := [2]string{w.Namespace, "all"}
		if r.Governed[policy] == nil {
			r.Policies = append(r.Policies, &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "all"}})
		}
		r.Governed[policy] = append(r.Governed[policy], overview.PolicyWorkload{Namespace: w.Namespace, Kind: w.Kind, Name: w.Name, Pods: 10})
	}
	return r
}

func BenchmarkOverview(b *testing.B) {
	_, c := start(b, thousand())
	get(b, c, "/")
	b.ReportAllocs()
	for b.Loop() {
		w, _ := get(b, c, "/")
		require.Equal(b, 200, w.Code)
	}
}

// BenchmarkPagesFor20Users is how long pages take at the server, with 20 users at once and readings that change: 1,000 workloads of 10
// replicas and 1,000 nodes.
func BenchmarkPagesFor20Users(b *testing.B) {
	o := spread()
	source := &cluster{o: o, with: restOfThousand(o)}
	c := running(b, Options{Source: source, Interval: interval, Log: slog.New(slog.DiscardHandler)})
	for _, path := range []string{
		"/", "/?filter=web-99", "/?page=7", workloadURL(&o.Workloads[0]), "/nodes", "/nodes?sort=-age", "/nodes/node-7", "/domain?name=zone-a/small",
		"/mixes", "/mixes/team-0/web-0", "/policies/team-0/all", "/find?q=web",
	} {
		b.Run(path, func(b *testing.B) {
			get(b, c, path)
			stop, changed := make(chan struct{}), make(chan struct{})
			go func() { // a reading with other workloads, twice a second
				defer close(changed)
				for tick := time.NewTicker(500 * time.Millisecond); ; {
					select {
					case <-stop:
						tick.Stop()
						return
					case <-tick.C:
						source.set(spread(), nil)
					}
				}
			}()
			var mu sync.Mutex
			var took []time.Duration
			b.SetParallelism(20 / runtime.GOMAXPROCS(0))
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					began := time.Now()
					w, _ := get(b, c, path)
					d := time.Since(began)
					if w.Code != http.StatusOK {
						b.Error(w.Code)
					}
					mu.Lock()
					took = append(took, d)
					mu.Unlock()
				}
			})
			close(stop)
			<-changed
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// BenchmarkReadingFor100Pages is what a reading costs for 100 open pages when one workload has changed.
func BenchmarkReadingFor100Pages(b *testing.B) {
	_, c := start(b, thousand())
	at := &url.URL{Path: "/"}
	o := thousand()
	pages := make([]*sentParts, 100)
	for i := range pages {
		pages[i] = newSentParts()
	}
	read := func() (bytes int) {
		s := &state{Reading: &overview.Reading{Overview: o}, rows: &sync.Map{}}
		for _, sent := range pages {
			bytes += len(c.changes(at, s, sent, ""))
		}
		return bytes
	}
	read()
	b.ReportAllocs()
	bytes := 0
	for i := 0; b.Loop(); i++ {
		o.Workloads[3].Pending = overview.Known(i)
		o.Workloads[3].Slots[9].Reason, o.Workloads[3].Slots[9].Pod = "", fmt.Sprint("pod-", i)
		bytes += read()
	}
	b.ReportMetric(float64(bytes)/float64(b.N)/100, "B/page")
}

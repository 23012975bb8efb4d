// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	o := thousand()
	source, c := start(b, o)
	for _, path := range []string{"/", "/?filter=web-99", "/?page=7", workloadURL(&o.Workloads[0]), "/nodes", "/find?q=web"} {
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
						source.set(thousand(), nil)
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

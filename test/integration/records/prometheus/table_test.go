// SPDX-License-Identifier: Apache-2.0

package prometheus_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/records/nfr"
	"berth.dev/berth/internal/records/prometheus"
	"berth.dev/berth/test/testenv"
)

// row is a load, its requirements, and what is recommended; 0 is no recommendation.
type row struct {
	load
	asked                             int32
	replicas, cpuTarget, memoryTarget int64
}

const none = -1

// table has the recommendations of the contract, and those of oprc-crm's own test (0→1 is no recommendation here: no CPU, nothing emitted).
var table = rows(
	row{load: load{cpu: 0, memory: 100, p99: none, rps: none}, memoryTarget: 120},
	row{load: load{cpu: none, memory: 100, p99: 300, rps: 10}, memoryTarget: 120},
	row{load: load{cpu: 499, memory: none, p99: none, rps: none}, replicas: 1, cpuTarget: 649},
	row{load: load{cpu: 500, memory: 0, p99: none, rps: none}, replicas: 1, cpuTarget: 650},
	row{load: load{cpu: 501, memory: 1001, p99: none, rps: none}, replicas: 2, cpuTarget: 652, memoryTarget: 1202},
	row{load: load{cpu: 1000, memory: 1 << 30, p99: 300, rps: none}, replicas: 3, cpuTarget: 1300, memoryTarget: 1288490189},
	row{load: load{cpu: 1000, memory: none, p99: 250, rps: none}, replicas: 2, cpuTarget: 1300},
	row{load: load{cpu: 1000, memory: none, p99: 251, rps: none}, replicas: 3, cpuTarget: 1300},
	row{load: load{cpu: 600, memory: none, p99: 100, rps: 50}, asked: 100, replicas: 3, cpuTarget: 780},
	row{load: load{cpu: 600, memory: none, p99: 251, rps: 50}, asked: 100, replicas: 4, cpuTarget: 780},
	row{load: load{cpu: 1000, memory: none, p99: none, rps: 200}, asked: 100, replicas: 1, cpuTarget: 1300},
	row{load: load{cpu: 600, memory: none, p99: none, rps: 0}, asked: 100, replicas: 2, cpuTarget: 780},
	row{load: load{cpu: 600, memory: none, p99: none, rps: none}, asked: 100, replicas: 2, cpuTarget: 780},
	row{load: load{cpu: none, memory: none, p99: none, rps: none}},
)

// rows gives each load a namespace, and has each once as a Deployment and twice as a Knative Service, with the metrics of 1.18 and of
// 1.19.
func rows(plain ...row) []row {
	var all []row
	for i, r := range plain {
		r.record, r.workload = "cart", "cart-fn-0"
		for _, knative := range []bool{false, true} {
			r.namespace, r.knative = fmt.Sprintf("table-%d-%t", i, knative), knative
			all = append(all, r)
		}
		r.namespace, r.otel = fmt.Sprintf("table-%d-otel", i), true
		all = append(all, r)
	}
	return all
}

func (l *load) component() nfr.Component {
	return nfr.Component{Namespace: l.namespace, Record: l.record, Workload: l.workload, Knative: l.knative}
}

func newClient(t *testing.T, address string) *prometheus.Client {
	t.Helper()
	c, err := prometheus.New(prometheus.Config{Address: address})
	require.NoError(t, err)
	return c
}

// scraped waits until Prometheus has what the source exposes.
func scraped(t *testing.T) *prometheus.Client {
	t.Helper()
	c := newClient(t, shared.server.URL)
	w := &testenv.World{T: t, Ctx: t.Context()}
	w.Eventually("Prometheus scraped the source", func() (bool, string) {
		f, err := c.Measure(t.Context(), "sum(last)", shared.source.end)
		return f.Known(), fmt.Sprint(err)
	})
	shared.source.quiet.Store(true)
	return c
}

// Each row of the table, scraped, queried and worked out.
func TestTheRecommendationTable(t *testing.T) {
	c := scraped(t)
	for _, r := range table {
		t.Run(fmt.Sprintf("%s: %v millicores, %v bytes, %v ms, %v of %d requests a second", r.namespace, r.cpu, r.memory, r.p99, r.rps, r.asked), func(t *testing.T) {
			observed, outcome := c.Observe(t.Context(), r.component(), shared.source.end)
			for what, pair := range map[string][2]any{
				"cpu": {r.cpu, observed.CPUMillicores}, "memory": {r.memory, observed.MemoryBytes},
				"p99": {r.p99, observed.P99Milliseconds}, "rps": {r.rps, observed.RPS},
			} {
				want, got := pair[0].(float64), pair[1].(nfr.Figure)
				require.Equal(t, want >= 0, got.Known(), what)
				require.InDelta(t, max(0, want), got.Value(), 1e-6, what)
			}
			known := r.cpu >= 0 || r.memory >= 0 || r.p99 >= 0 || r.rps >= 0
			assert.Equal(t, known, outcome.OK(), outcome.Message)
			if !known {
				assert.Equal(t, v1alpha1.ReasonPrometheusNoData, outcome.Reason)
			}
			got := map[v1alpha1.NFRDimension]int64{}
			for _, n := range nfr.Recommend(r.workload, observed, &v1alpha1.NFRRequirements{MinThroughputRPS: new(r.asked)}) {
				got[n.Dimension] = n.Target
			}
			want := map[v1alpha1.NFRDimension]int64{}
			for dimension, target := range map[v1alpha1.NFRDimension]int64{"replicas": r.replicas, "cpu": r.cpuTarget, "memory": r.memoryTarget} {
				if target != 0 {
					want[dimension] = target
				}
			}
			assert.Equal(t, want, got)
		})
	}
}

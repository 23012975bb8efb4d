// SPDX-License-Identifier: Apache-2.0

package prometheus_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/records/nfr"
	"berth.dev/berth/internal/records/prometheus"
)

// fault answers in place of Prometheus.
type fault func(w http.ResponseWriter, r *http.Request)

func serverError(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "no: "+strings.Repeat("very ", 1000)+"broken", http.StatusInternalServerError)
}

// silence answers nothing for as long as someone waits for it.
func silence(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func answer(body string) fault {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body))
	}
}

var empty = answer(`{"status":"success","data":{"resultType":"vector","result":[]}}`)

// front is a proxy of Prometheus, and answers itself where it is configured to.
type front struct {
	URL string

	mu sync.Mutex
	// past and now replace the answers to range and to instant queries; nil passes them on.
	past, now fault
	asked     []string
}

func newFront(t *testing.T) *front {
	t.Helper()
	target, err := url.Parse(shared.server.URL)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	f := &front{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := strings.TrimPrefix(r.URL.Path, "/api/v1/")
		f.mu.Lock()
		f.asked = append(f.asked, kind)
		instead := map[string]fault{"query_range": f.past, "query": f.now}[kind]
		f.mu.Unlock()
		if instead == nil {
			proxy.ServeHTTP(w, r)
			return
		}
		require.NoError(t, r.ParseForm()) // read it: only then is it seen that the client went away
		instead(w, r)
	}))
	t.Cleanup(s.Close)
	f.URL = s.URL
	return f
}

// set has it answer itself from now on, and forgets the requests that it got.
func (f *front) set(past, now fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.past, f.now, f.asked = past, now, nil
}

func (f *front) wasAsked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// exposeOthers adds what the tests of this file request.
func exposeOthers(s *source) {
	s.gauge("last", "", 1, 0)
	// The mean of its ten minutes is 970000, its end 1000000.
	s.gauge("container_memory_working_set_bytes", `namespace="rising",pod="cart-1",container="function"`, 1e6, 100)
	s.gauge("zero", "", 0, 0)
	idle := load{namespace: "idle", record: "cart", workload: "cart", cpu: 10, memory: 10, rps: 0, p99: none}
	idle.expose(s)
	for _, le := range []string{"0.1", "+Inf"} {
		s.counter("http_server_requests_seconds_bucket", fmt.Sprintf(`oaas_owner="cart",namespace="idle",le=%q`, le), 0)
	}
}

var rising = nfr.QueriesFor(nfr.Component{Namespace: "rising", Record: "cart", Workload: "cart"}).Memory.Expression

// First the range, and its mean; the instant only if that is empty or 0.
func TestTheInstantIsQueriedOnlyWithoutTheRange(t *testing.T) {
	scraped(t)
	f := newFront(t)
	c := newClient(t, f.URL)
	both, one := []string{"query_range", "query"}, []string{"query_range"}
	for name, x := range map[string]struct {
		query     string
		past, now fault
		want      float64
		asked     []string
		reason    string
	}{
		"the mean of ten minutes":                 {query: rising, want: 970000, asked: one},
		"no range":                                {query: rising, past: answer(`{"status":"success","data":{"resultType":"matrix","result":[]}}`), want: 1e6, asked: both},
		"CR-21: HTTP 500 to the range":            {query: rising, past: serverError, want: 1e6, asked: both},
		"a range that is 0":                       {query: "zero", asked: both},
		"a range that is 0, and nothing after it": {query: "zero", now: empty, asked: both},
		"a range that is 0, and HTTP 500":         {query: "zero", now: serverError, asked: both},
		"a metric that is not there":              {query: "nothing", asked: both, reason: v1alpha1.ReasonPrometheusNoData},
		"CR-21: empty answers":                    {query: rising, past: empty, now: empty, asked: both, reason: v1alpha1.ReasonPrometheusNoData},
		"CR-21: HTTP 500":                         {query: rising, past: serverError, now: serverError, asked: both, reason: v1alpha1.ReasonPrometheusQueryFailed},
		"an empty range, and HTTP 500":            {query: rising, past: empty, now: serverError, asked: both, reason: v1alpha1.ReasonPrometheusQueryFailed},
		"HTTP 500, and then nothing":              {query: rising, past: serverError, now: empty, asked: both, reason: v1alpha1.ReasonPrometheusQueryFailed},
		"a query that Prometheus does not take":   {query: "sum(", asked: both, reason: v1alpha1.ReasonPrometheusQueryFailed},
		"one that is no vector":                   {query: `"text"`, asked: both, reason: v1alpha1.ReasonPrometheusQueryFailed},
		"no number":                               {query: "0/zero", asked: both, reason: v1alpha1.ReasonPrometheusNoData},
		"infinity":                                {query: "1/zero", asked: both, reason: v1alpha1.ReasonPrometheusNoData},
		"no JSON":                                 {query: rising, past: answer("<html>"), now: answer("<html>"), asked: both, reason: v1alpha1.ReasonPrometheusQueryFailed},
	} {
		t.Run(name, func(t *testing.T) {
			f.set(x.past, x.now)
			got, err := c.Measure(t.Context(), x.query, shared.source.end)
			assert.Equal(t, x.asked, f.wasAsked())
			assert.InDelta(t, x.want, got.Value(), 1e-6)
			if x.reason == "" {
				require.NoError(t, err)
				assert.True(t, got.Known())
				return
			}
			var e *prometheus.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, x.reason, e.Reason)
			assert.False(t, got.Known())
			assert.Less(t, len(err.Error()), 400)
		})
	}
}

// A server that is slower than five seconds is queried once, not once for each figure.
func TestASlowServer(t *testing.T) {
	scraped(t)
	f := newFront(t)
	c := newClient(t, f.URL)
	begin := time.Now()
	f.set(silence, nil)
	got, err := c.Measure(t.Context(), rising, shared.source.end)
	require.NoError(t, err)
	took := time.Since(begin)
	assert.InDelta(t, 1e6, got.Value(), 1e-6, "the range took too long, the instant did not")
	assert.GreaterOrEqual(t, took, nfr.QueryTimeout)
	assert.Less(t, took, 2*nfr.QueryTimeout, "it is queried for the range once")

	f.set(silence, silence)
	begin = time.Now()
	observed, outcome := c.Observe(t.Context(), table[0].component(), shared.source.end)
	took = time.Since(begin)
	assert.Equal(t, prometheus.Outcome{
		Reason: v1alpha1.ReasonPrometheusUnreachable, Message: "Prometheus, queried for requests: no answer within 5s",
	}, outcome)
	assert.Empty(t, observed)
	assert.Equal(t, []string{"query_range", "query"}, f.wasAsked())
	assert.GreaterOrEqual(t, took, 2*nfr.QueryTimeout)
	assert.Less(t, took, 3*nfr.QueryTimeout, "neither is queried again")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	begin = time.Now()
	observed, _ = c.Observe(ctx, table[0].component(), shared.source.end)
	assert.Empty(t, observed)
	assert.Less(t, time.Since(begin), nfr.QueryTimeout/2, "who does not want to know any more does not wait")
}

func TestHTTP500OfAllQueries(t *testing.T) {
	f := newFront(t)
	f.set(serverError, serverError)
	observed, outcome := newClient(t, f.URL).Observe(t.Context(), table[0].component(), shared.source.end)
	assert.Equal(t, v1alpha1.ReasonPrometheusQueryFailed, outcome.Reason)
	assert.Contains(t, outcome.Message, "requests: server error: 500: no: very")
	assert.Empty(t, observed)
	assert.Empty(t, nfr.Recommend("cart", observed, nil), "and nothing is recommended")
}

// A server that goes away and comes back: the client goes on by itself.
func TestAServerThatIsGone(t *testing.T) {
	o := cluster.PrometheusOptions{Dir: t.TempDir(), Targets: []string{shared.target}}
	server, err := cluster.StartPrometheus(t.Context(), os.Stderr, o)
	require.NoError(t, err)
	c := newClient(t, server.URL)
	component := table[0].component()
	_, outcome := c.Observe(t.Context(), component, time.Now())
	require.NotEqual(t, v1alpha1.ReasonPrometheusUnreachable, outcome.Reason)

	server.Kill()
	_, err = server.Wait(t.Context())
	require.NoError(t, err)
	begin := time.Now()
	observed, outcome := c.Observe(t.Context(), component, time.Now())
	assert.Equal(t, prometheus.Outcome{
		Reason: v1alpha1.ReasonPrometheusUnreachable, Message: "Prometheus, queried for requests: dial: connect: connection refused",
	}, outcome)
	assert.Empty(t, observed)
	assert.Less(t, time.Since(begin), nfr.QueryTimeout/2)

	o.Port = server.Port
	server, err = cluster.StartPrometheus(t.Context(), os.Stderr, o)
	require.NoError(t, err)
	defer server.Kill()
	_, outcome = c.Observe(t.Context(), component, time.Now())
	assert.NotEqual(t, v1alpha1.ReasonPrometheusUnreachable, outcome.Reason, outcome.Message)
}

// Without requests there is no latency: Prometheus returns NaN.
func TestWithoutRequestsTheLatencyIsUnknown(t *testing.T) {
	c := scraped(t)
	observed, outcome := c.Observe(t.Context(), nfr.Component{Namespace: "idle", Record: "cart", Workload: "cart"}, shared.source.end)
	assert.True(t, observed.RPS.Known())
	assert.Zero(t, observed.RPS.Value())
	assert.False(t, observed.P99Milliseconds.Known())
	assert.Equal(t, prometheus.Outcome{Reason: v1alpha1.ReasonPrometheusOK, Message: "Prometheus has no data about its latency"}, outcome)
}

// A name is text to the real parser too, whatever is in it.
func TestANameCannotEscapeTheQuery(t *testing.T) {
	c := scraped(t)
	for _, name := range []string{
		`"}) or vector(1) or sum(last{x="`, `\"}) or vector(1) #`, `\`, "a\nb", "a\x00b", "é☃", "`", `{{.}}`, `.*`, `cart.fn.0`, `cart|.*`, `(`, `\Q`,
	} {
		for _, knative := range []bool{true, false} {
			for _, component := range []nfr.Component{
				{Namespace: name, Record: "cart", Workload: "cart-fn-0", Knative: knative},
				{Namespace: "table-8-false", Record: name, Workload: name, Knative: knative},
				{Namespace: "table-8-true", Record: name, Workload: name, Knative: knative},
			} {
				observed, outcome := c.Observe(t.Context(), component, shared.source.end)
				assert.Equal(t, v1alpha1.ReasonPrometheusNoData, outcome.Reason, "%q: %s", name, outcome.Message)
				assert.Empty(t, observed, "%q", name)
			}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package nfr

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/v1alpha1"
)

// The query strings of oprc-crm, with the record's and the workload's names, and the seventh that it has not.
func TestTheQueries(t *testing.T) {
	knative := QueriesFor(Component{Namespace: "shop", Record: "cart", Workload: "cart-fn-0", Knative: true})
	other := QueriesFor(Component{Namespace: "shop", Record: "cart", Workload: "cart-fn-0"})
	assert.Equal(t, []string{
		`sum(rate(activator_request_count{namespace_name="shop",configuration_name="cart-fn-0"}[1m]))` +
			` or max(sum(rate(http_server_request_duration_seconds_count{k8s_namespace_name="shop",kn_configuration_name="cart-fn-0"}[1m])) by (job))`,
		`max(histogram_quantile(0.99, sum(rate(activator_request_latencies_bucket` +
			`{namespace_name="shop",configuration_name="cart-fn-0"}[1m])) by (revision_name, le)))` +
			` or 1000*max(histogram_quantile(0.99, sum(rate(http_server_request_duration_seconds_bucket` +
			`{k8s_namespace_name="shop",kn_configuration_name="cart-fn-0"}[1m])) by (job, kn_revision_name, le)))`,
		`1000*sum(rate(container_cpu_usage_seconds_total{namespace="shop",pod=~"cart-fn-0-.*",container!=""}[5m]))`,
		`sum(container_memory_working_set_bytes{namespace="shop",pod=~"cart-fn-0-.*",container!=""})`,
	}, expressions(knative))
	assert.Equal(t, []string{
		`sum(rate(http_server_requests_seconds_count{oaas_owner="cart",namespace="shop"}[1m]))`,
		`1000*histogram_quantile(0.99, sum(rate(http_server_requests_seconds_bucket{oaas_owner="cart",namespace="shop"}[5m])) by (le))`,
		knative.CPU.Expression, knative.Memory.Expression,
	}, expressions(other))
}

func expressions(q Queries) []string {
	return []string{q.RPS.Expression, q.P99.Expression, q.CPU.Expression, q.Memory.Expression}
}

// What each source queries about requests; every expression reads the series that are named as missing if there is no data.
func TestSourcesOfMetrics(t *testing.T) {
	const pods = `{namespace="shop",pod=~"cart-fn-0-.*"}`
	const istio = `{namespace="shop",destination_workload_namespace="shop",destination_workload="cart-fn-0",reporter="destination"}`
	for name, c := range map[string]struct {
		metrics  v1alpha1.FunctionMetrics
		rps, p99 string
	}{
		"HTTPServer": {
			v1alpha1.FunctionMetrics{Source: v1alpha1.MetricsHTTPServer},
			`sum(rate(http_server_requests_seconds_count` + pods + `[1m]))`,
			`1000*histogram_quantile(0.99, sum(rate(http_server_requests_seconds_bucket` + pods + `[5m])) by (le))`,
		},
		"OpenTelemetry": {
			v1alpha1.FunctionMetrics{Source: v1alpha1.MetricsOpenTelemetry},
			`sum(rate(http_server_request_duration_seconds_count` + pods + `[1m]))`,
			`1000*histogram_quantile(0.99, sum(rate(http_server_request_duration_seconds_bucket` + pods + `[5m])) by (le))`,
		},
		"Istio": {
			v1alpha1.FunctionMetrics{Source: v1alpha1.MetricsIstio},
			`sum(rate(istio_requests_total` + istio + `[1m]))`,
			`histogram_quantile(0.99, sum(rate(istio_request_duration_milliseconds_bucket` + istio + `[5m])) by (le))`,
		},
		"Custom": {
			v1alpha1.FunctionMetrics{Source: v1alpha1.MetricsCustom, LatencyHistogram: "calls", LatencyUnit: v1alpha1.LatencyMilliseconds},
			`sum(rate(calls_count` + pods + `[1m]))`,
			`histogram_quantile(0.99, sum(rate(calls_bucket` + pods + `[5m])) by (le))`,
		},
		"Custom, no latency": {
			v1alpha1.FunctionMetrics{Source: v1alpha1.MetricsCustom, RequestCounter: "calls_total"}, `sum(rate(calls_total` + pods + `[1m]))`, ``,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, knative := range []bool{true, false} {
				q := QueriesFor(Component{Namespace: "shop", Record: "cart", Workload: "cart-fn-0", Knative: knative, Metrics: c.metrics})
				assert.Equal(t, []string{c.rps, c.p99}, expressions(q)[:2])
				for _, q := range []Query{q.RPS, q.P99, q.CPU, q.Memory} {
					assert.Contains(t, q.Expression, q.Series)
				}
			}
		})
	}
}

func TestANameInAPatternIsEscaped(t *testing.T) {
	assert.Contains(t, QueriesFor(Component{Workload: "v1.web"}).CPU.Expression, `pod=~"v1\\.web-.*"`)
}

// FuzzQueries looks for a name that gets out of its string: what is left without the strings must be what is left of harmless
// names, and the strings must be the names.
func FuzzQueries(f *testing.F) {
	for _, name := range []string{"", "cart", "v1.web", `"}) or vector(1`, `a\`, `\"`, "a\nb", "\xff", "`", "{{x}}", "$1", "é"} {
		f.Add(name, name, name)
	}
	quoted := regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	f.Fuzz(func(t *testing.T, namespace, record, workload string) {
		for _, knative := range []bool{true, false} {
			got := QueriesFor(Component{Namespace: namespace, Record: record, Workload: workload, Knative: knative})
			plain := QueriesFor(Component{Namespace: "n", Record: "r", Workload: "w", Knative: knative})
			for i, q := range expressions(got) {
				want := expressions(plain)[i]
				require.Equal(t, quoted.ReplaceAllString(want, ""), quoted.ReplaceAllString(q, ""))
				require.NotContains(t, q, "\n")
				for k, s := range quoted.FindAllString(q, -1) {
					value, err := strconv.Unquote(s)
					require.NoError(t, err)
					wanted, err := strconv.Unquote(quoted.FindAllString(want, -1)[k])
					require.NoError(t, err)
					switch {
					case wanted == "w-.*":
						// Only names that are text: a pattern cannot be anything else.
						if pattern, err := regexp.Compile("^(?s:" + value + ")$"); err == nil {
							require.True(t, pattern.MatchString(workload+"-x"))
							require.False(t, pattern.MatchString("x"+workload+"-x"))
						} else {
							require.NotEqual(t, workload, strings.ToValidUTF8(workload, "?"))
						}
					case wanted != "":
						require.Equal(t, map[string]string{"n": namespace, "r": record, "w": workload}[wanted], value)
					}
				}
			}
		}
	})
}

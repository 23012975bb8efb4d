// SPDX-License-Identifier: Apache-2.0

package nfr

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"berth.dev/berth/apis/v1alpha1"
)

// The window, the step and the timeout of queries to Prometheus.
const (
	// QueryWindow is how far back the range query goes.
	QueryWindow = 10 * time.Minute
	// QueryStep is the distance of its points.
	QueryStep = 30 * time.Second
	// QueryTimeout bounds each query.
	QueryTimeout = 5 * time.Second
)

// Component is the workload that is measured.
type Component struct {
	// Namespace is that of the record and its children.
	Namespace string
	// Record is the name of the DeploymentRecord. Metrics of requests carry it, as the label oaas_owner.
	Record string
	// Workload is the name of the Deployment or Knative Service. The names of its pods begin with it.
	Workload string
	// Knative means that it is a Knative Service.
	Knative bool
	// Metrics is how its requests are measured. The zero value is the default.
	Metrics v1alpha1.FunctionMetrics
}

// source returns the set of series of the component.
func (c *Component) source() v1alpha1.MetricsSource {
	switch {
	case c.Metrics.Source != "":
		return c.Metrics.Source
	case c.Knative:
		return v1alpha1.MetricsKnative
	}
	return v1alpha1.MetricsRecord
}

// Query is a PromQL expression that results in one series at most. The zero value is none: the value is not measured.
type Query struct {
	Expression string
	// Series is what the expression reads, with its label matchers.
	Series string
}

// Queries are those for one component.
type Queries struct {
	// RPS is in requests a second. With the source Record it counts the requests of the whole record.
	RPS Query
	// P99 is in milliseconds. With the source Record it is that of the whole record.
	P99 Query
	// CPU is in millicores, of all pods together.
	CPU Query
	// Memory is in bytes, of all pods together.
	Memory Query
}

// QueriesFor returns the queries for a component. Those of the sources Record and Knative are those of oprc-crm, and one for
// the requests of a record, for which oprc-crm has none.
//
// Those of Knative have two forms, of which one has a result. Up to 1.18 the activator exposes latencies in milliseconds,
// which oprc-crm multiplies by 1000. From 1.19 on, the metrics are those of OpenTelemetry, in seconds, and the activator and
// the queue proxy of each pod expose the same ones: each job is added up on its own. Source of the names and units: Knative's
// documentation, "Knative Serving metrics", 1.18 and 1.20; Istio's documentation, "Istio Standard Metrics"; the semantic
// conventions of OpenTelemetry for HTTP metrics.
func QueriesFor(c Component) Queries {
	workload := []matcher{{"namespace", "=", c.Namespace}, {"pod", "=~", regexp.QuoteMeta(c.Workload) + "-.*"}}
	containers := selector(append(workload, matcher{"container", "!=", ""})...)
	cpu, memory := "container_cpu_usage_seconds_total"+containers, "container_memory_working_set_bytes"+containers
	q := Queries{
		CPU:    Query{fmt.Sprintf(`1000*sum(rate(%s[5m]))`, cpu), cpu},
		Memory: Query{fmt.Sprintf(`sum(%s)`, memory), memory},
	}
	pods := selector(workload...)
	switch c.source() {
	case v1alpha1.MetricsKnative:
		q.RPS, q.P99 = ofKnative(c)
	case v1alpha1.MetricsIstio:
		// Each request is measured at both of its ends. The label namespace is that of the pod that was scraped: pods of others, which
		// may report any destination, do not count.
		received := selector(matcher{"namespace", "=", c.Namespace}, matcher{"destination_workload_namespace", "=", c.Namespace},
			matcher{"destination_workload", "=", c.Workload}, matcher{"reporter", "=", "destination"})
		q.RPS = requestsOf("istio_requests_total" + received)
		q.P99 = latencyOf("istio_request_duration_milliseconds_bucket"+received, v1alpha1.LatencyMilliseconds)
	case v1alpha1.MetricsOpenTelemetry:
		q.RPS, q.P99 = ofHistogram("http_server_request_duration_seconds", pods, v1alpha1.LatencySeconds)
	case v1alpha1.MetricsHTTPServer:
		q.RPS, q.P99 = ofHistogram("http_server_requests_seconds", pods, v1alpha1.LatencySeconds)
	case v1alpha1.MetricsCustom:
		if c.Metrics.LatencyHistogram != "" {
			q.RPS, q.P99 = ofHistogram(c.Metrics.LatencyHistogram, pods, c.Metrics.LatencyUnit)
		}
		if c.Metrics.RequestCounter != "" {
			q.RPS = requestsOf(c.Metrics.RequestCounter + pods)
		}
	default:
		owned := selector(matcher{"oaas_owner", "=", c.Record}, matcher{"namespace", "=", c.Namespace})
		q.RPS, q.P99 = ofHistogram("http_server_requests_seconds", owned, v1alpha1.LatencySeconds)
	}
	return q
}

// ofHistogram returns the queries for a histogram, which counts requests too.
func ofHistogram(name, selector string, unit v1alpha1.LatencyUnit) (rps, p99 Query) {
	return requestsOf(name + "_count" + selector), latencyOf(name+"_bucket"+selector, unit)
}

// requestsOf returns the query for the rate of a counter.
func requestsOf(series string) Query { return Query{fmt.Sprintf(`sum(rate(%s[1m]))`, series), series} }

// latencyOf returns the query for the 99th percentile of a histogram, in milliseconds.
func latencyOf(series string, unit v1alpha1.LatencyUnit) Query {
	expression := fmt.Sprintf(`histogram_quantile(0.99, sum(rate(%s[5m])) by (le))`, series)
	if unit != v1alpha1.LatencyMilliseconds {
		expression = "1000*" + expression
	}
	return Query{expression, series}
}

func ofKnative(c Component) (rps, p99 Query) {
	service := selector(matcher{"namespace_name", "=", c.Namespace}, matcher{"configuration_name", "=", c.Workload})
	later := selector(matcher{"k8s_namespace_name", "=", c.Namespace}, matcher{"kn_configuration_name", "=", c.Workload})
	rps = Query{
		fmt.Sprintf(`sum(rate(activator_request_count%s[1m])) or max(sum(rate(http_server_request_duration_seconds_count%s[1m])) by (job))`,
			service, later),
		fmt.Sprintf("activator_request_count%s or http_server_request_duration_seconds_count%s", service, later),
	}
	p99 = Query{
		fmt.Sprintf(`max(histogram_quantile(0.99, sum(rate(activator_request_latencies_bucket%s[1m])) by (revision_name, le)))`+
			` or 1000*max(histogram_quantile(0.99, sum(rate(http_server_request_duration_seconds_bucket%s[1m])) by (job, kn_revision_name, le)))`,
			service, later),
		fmt.Sprintf("activator_request_latencies_bucket%s or http_server_request_duration_seconds_bucket%s", service, later),
	}
	return rps, p99
}

// matcher is a label, an operator and a value of a selector.
type matcher [3]string

// selector writes label matchers. PromQL's strings in double quotes have the escapes of Go's, so that no value ends its own.
func selector(matchers ...matcher) string {
	texts := make([]string, len(matchers))
	for i, m := range matchers {
		texts[i] = m[0] + m[1] + strconv.Quote(m[2])
	}
	return "{" + strings.Join(texts, ",") + "}"
}

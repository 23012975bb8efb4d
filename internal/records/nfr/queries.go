// SPDX-License-Identifier: Apache-2.0

package nfr

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// How Prometheus is requested.
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
}

// Queries are the PromQL expressions for one component. Each results in one series at most.
type Queries struct {
	// RPS is in requests a second. Of what is not Knative it counts the requests of the whole record.
	RPS string
	// P99 is in milliseconds. Of what is not Knative it is that of the whole record.
	P99 string
	// CPU is in millicores, of all pods together.
	CPU string
	// Memory is in bytes, of all pods together.
	Memory string
}

// QueriesFor returns the queries for a component: those of oprc-crm, and one for the requests of what is not Knative, for
// which oprc-crm has none.
//
// Those of Knative have two forms, of which one has a result. Up to 1.18 the activator exposes latencies in milliseconds,
// which oprc-crm multiplies by 1000. From 1.19 on, the metrics are those of OpenTelemetry, in seconds, and the activator and
// the queue proxy of each pod expose the same ones: each job is added up on its own. Source of the names and units: Knative's
// documentation, "Knative Serving metrics", 1.18 and 1.20.
func QueriesFor(c Component) Queries {
	pods := selector(
		matcher{"namespace", "=", c.Namespace}, matcher{"pod", "=~", regexp.QuoteMeta(c.Workload) + "-.*"}, matcher{"container", "!=", ""})
	q := Queries{
		CPU:    fmt.Sprintf(`1000*sum(rate(container_cpu_usage_seconds_total%s[5m]))`, pods),
		Memory: fmt.Sprintf(`sum(container_memory_working_set_bytes%s)`, pods),
	}
	if c.Knative {
		service := selector(matcher{"namespace_name", "=", c.Namespace}, matcher{"configuration_name", "=", c.Workload})
		later := selector(matcher{"k8s_namespace_name", "=", c.Namespace}, matcher{"kn_configuration_name", "=", c.Workload})
		q.RPS = fmt.Sprintf(`sum(rate(activator_request_count%s[1m])) or max(sum(rate(http_server_request_duration_seconds_count%s[1m])) by (job))`,
			service, later)
		q.P99 = fmt.Sprintf(`max(histogram_quantile(0.99, sum(rate(activator_request_latencies_bucket%s[1m])) by (revision_name, le)))`+
			` or 1000*max(histogram_quantile(0.99, sum(rate(http_server_request_duration_seconds_bucket%s[1m])) by (job, kn_revision_name, le)))`,
			service, later)
		return q
	}
	owned := selector(matcher{"oaas_owner", "=", c.Record}, matcher{"namespace", "=", c.Namespace})
	q.RPS = fmt.Sprintf(`sum(rate(http_server_requests_seconds_count%s[1m]))`, owned)
	q.P99 = fmt.Sprintf(`1000*histogram_quantile(0.99, sum(rate(http_server_requests_seconds_bucket%s[5m])) by (le))`, owned)
	return q
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

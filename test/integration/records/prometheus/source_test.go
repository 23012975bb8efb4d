// SPDX-License-Identifier: Apache-2.0

package prometheus_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// past is how much history the source has: the ten minutes of the query and the five of rate(), and some.
	past = 17 * time.Minute
	// every is the distance of its points.
	every = 5 * time.Second
)

// source is what Prometheus scrapes: a history with timestamps of its own, on a grid of seconds, so that rates are exact. A
// scrape has all of it, as the text format allows where each point has its time.
type source struct {
	end    time.Time
	series []series
	// quiet has it serve nothing more: all is there.
	quiet atomic.Bool
}

// series is one time series: its value at seconds from the end, which are 0 or less.
type series struct {
	name, labels string
	at           func(seconds float64) float64
}

func newSource(now time.Time) *source { return &source{end: now.Truncate(every)} }

// counter adds one that grows by so much a second. It never was near 0, where rate() is careful.
func (s *source) counter(name, labels string, aSecond float64) {
	s.series = append(s.series, series{name, labels, func(seconds float64) float64 { return 1e6 + aSecond*(seconds+past.Seconds()) }})
}

// gauge adds one that has a value at the end, and reached it by growing so much a second.
func (s *source) gauge(name, labels string, value, aSecond float64) {
	s.series = append(s.series, series{name, labels, func(seconds float64) float64 { return value + aSecond*seconds }})
}

func (s *source) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	if s.quiet.Load() {
		return
	}
	// The series of one name must follow each other.
	sorted := slices.Clone(s.series)
	slices.SortStableFunc(sorted, func(a, b series) int { return strings.Compare(a.name, b.name) })
	for _, x := range sorted {
		for t := s.end.Add(-past); !t.After(s.end); t = t.Add(every) {
			fmt.Fprintf(w, "%s{%s} %v %d\n", x.name, x.labels, x.at(t.Sub(s.end).Seconds()), t.UnixMilli())
		}
	}
}

// load is what a workload does.
type load struct {
	namespace, record, workload string
	knative                     bool
	// otel is set for Knative from 1.19 on.
	otel bool
	// cpu is in millicores, memory in bytes, p99 in milliseconds, rps in requests a second. Negative ones are not exposed.
	cpu, memory, p99, rps float64
}

// expose adds the series of a workload to a source, and beside them such as are of something else.
func (l *load) expose(s *source) {
	of := func(namespace, pod, container string) string {
		return fmt.Sprintf(`namespace="%s",pod="%s",container="%s"`, namespace, pod, container)
	}
	one, two := l.workload+"-7d4b9-x2x2x", l.workload+"-7d4b9-y3y3y"
	if l.cpu >= 0 {
		const name = "container_cpu_usage_seconds_total"
		s.counter(name, of(l.namespace, one, "function"), l.cpu/1000*0.75)
		s.counter(name, of(l.namespace, two, "function"), l.cpu/1000*0.25)
		s.counter(name, of(l.namespace, one, ""), 77)                     // the pod's own cgroup, which has the containers in it
		s.counter(name, of(l.namespace, "x"+one, "function"), 77)         // another workload
		s.counter(name, of(l.namespace+"-other", one, "function"), 77)    // another namespace
		s.counter(name, of(l.namespace, l.workload+"1-a", "function"), 7) // one whose name begins alike
	}
	if l.memory >= 0 {
		const name = "container_memory_working_set_bytes"
		s.gauge(name, of(l.namespace, one, "function"), l.memory-1, 0)
		s.gauge(name, of(l.namespace, two, "function"), 1, 0)
		s.gauge(name, of(l.namespace, one, ""), 1e12, 0)
		s.gauge(name, of(l.namespace, "x"+one, "function"), 1e12, 0)
	}
	count, buckets, unit, owned := "http_server_requests_seconds_count", "http_server_requests_seconds_bucket", 1000.0, fmt.Sprintf(`oaas_owner="%s",namespace="%s"`, l.record, l.namespace)
	switch {
	case l.otel: // the activator and the queue proxies count the same requests
		count, buckets = "http_server_request_duration_seconds_count", "http_server_request_duration_seconds_bucket"
		owned = fmt.Sprintf(`k8s_namespace_name="%s",kn_configuration_name="%s",kn_revision_name="%s-00001"`, l.namespace, l.workload, l.workload)
	case l.knative:
		count, buckets, unit = "activator_request_count", "activator_request_latencies_bucket", 1
		owned = fmt.Sprintf(`namespace_name="%s",configuration_name="%s",revision_name="%s-00001"`, l.namespace, l.workload, l.workload)
	}
	jobs := []string{owned}
	if l.otel {
		jobs = []string{owned + `,job="activator"`, owned + `,job="queue-proxy"`}
	}
	for _, labels := range jobs {
		if l.rps >= 0 {
			s.counter(count, labels+`,pod="one"`, l.rps/2)
			s.counter(count, labels+`,pod="two"`, l.rps/2)
			s.counter(count, strings.Replace(labels, `="`, `="x`, 1), 5)
		}
		if l.p99 >= 0 {
			// 99 of 100 requests take at most this long.
			s.counter(buckets, fmt.Sprintf(`%s,le="%v"`, labels, l.p99/unit), 99)
			s.counter(buckets, labels+`,le="+Inf"`, 100)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"context"
	"fmt"
	"strings"
	"time"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/records/nfr"
)

const (
	measured = "Everything was measured"
	noData   = "Prometheus has no data about it"
)

// Outcome is how a measurement went, for the condition NfrObserved.
type Outcome struct {
	// Reason is one of the Reason constants.
	Reason string
	// Message is for users; it has no names and no figures in it.
	Message string
	// Missing names what has no data: "requests (http_requests_total{...})".
	Missing []string
}

// OK reports whether something was measured.
func (o Outcome) OK() bool { return o.Reason == v1alpha1.ReasonPrometheusOK }

// Observe measures a component at a time. What could not be measured is unknown; formulas take it for 0. Where one query was
// not answered at all, the rest is skipped, so that a component takes two time-outs at most: callers do well to leave out
// the other components of the same round too. When ctx ended, the outcome shows nothing about Prometheus.
func (c *Client) Observe(ctx context.Context, component nfr.Component, at time.Time) (nfr.Observed, Outcome) {
	var (
		observed nfr.Observed
		queries  = nfr.QueriesFor(component)
		round    = []struct {
			what  string
			query nfr.Query
			into  *nfr.Figure
		}{
			{"requests", queries.RPS, &observed.RPS},
			{"latency", queries.P99, &observed.P99Milliseconds},
			{"CPU", queries.CPU, &observed.CPUMillicores},
			{"memory", queries.Memory, &observed.MemoryBytes},
		}
		missing, series []string
		failure         error
		known           int
	)
	for _, r := range round {
		if r.query == (nfr.Query{}) {
			continue
		}
		figure, err := c.Measure(ctx, r.query.Expression, at)
		*r.into = figure
		if err == nil {
			known++
			continue
		}
		if reasonOf(err) == v1alpha1.ReasonPrometheusNoData {
			missing = append(missing, r.what)
			// Without requests the series are there, and have no latency.
			idle := observed.RPS.Known() && observed.RPS.Value() == 0
			if !idle || r.what != "latency" {
				series = append(series, r.what+" ("+r.query.Series+")")
			}
			continue
		}
		failure = worse(failure, fmt.Errorf("%s: %w", r.what, err))
		if reasonOf(err) == v1alpha1.ReasonPrometheusUnreachable {
			break
		}
	}
	o := outcome(failure, missing, known)
	o.Missing = series
	return observed, o
}

func outcome(failure error, missing []string, known int) Outcome {
	switch {
	case failure != nil:
		return Outcome{Reason: reasonOf(failure), Message: "Prometheus, queried for " + failure.Error()}
	case known == 0:
		return Outcome{Reason: v1alpha1.ReasonPrometheusNoData, Message: noData}
	case len(missing) > 0:
		return Outcome{Reason: v1alpha1.ReasonPrometheusOK, Message: "Prometheus has no data about its " + strings.Join(missing, ", ")}
	}
	return Outcome{Reason: v1alpha1.ReasonPrometheusOK, Message: measured}
}

// Merge makes one outcome of those of the components: the worst failure, the first of those that are alike; if none failed,
// v1alpha1.ReasonPrometheusOK where something is known of any.
func Merge(outcomes ...Outcome) Outcome {
	var failure, incomplete Outcome
	known, unknown := 0, 0
	for _, o := range outcomes {
		switch {
		case o.Reason == v1alpha1.ReasonPrometheusNoData:
			unknown++
		case severity[o.Reason] > severity[failure.Reason]:
			failure = o
		case o.OK():
			known++
			if incomplete.Message == "" && o.Message != measured {
				incomplete = o
			}
		}
	}
	switch {
	case failure.Reason != "":
		return failure
	case len(outcomes) == 0:
		return Outcome{Reason: v1alpha1.ReasonPrometheusNoData, Message: "There is nothing to measure"}
	case known == 0:
		return Outcome{Reason: v1alpha1.ReasonPrometheusNoData, Message: noData}
	case unknown > 0:
		message := fmt.Sprintf("Prometheus has no data about %d of %d workloads", unknown, len(outcomes))
		return Outcome{Reason: v1alpha1.ReasonPrometheusOK, Message: message}
	case incomplete.Message != "":
		return incomplete
	}
	return Outcome{Reason: v1alpha1.ReasonPrometheusOK, Message: measured}
}

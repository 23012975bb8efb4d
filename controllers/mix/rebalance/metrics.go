// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"berth.dev/berth/internal/mix/rebalance"
)

// Results of evictions.
const (
	resultEvicted     = "evicted"
	resultReleased    = "released"
	resultRetired     = "retired"
	resultRequested   = "requested"
	resultBudget      = "disruption-budget"
	resultOverlapping = "overlapping-disruption-budgets"
	resultChanged     = "pod-changed"
	resultError       = "error"
)

// Results of placeholders, beside those of rebalance.Ended.
const (
	holderCreated = "created"
	holderRefused = "refused"
)

// Metrics of the controller. No label names a pod or a node.
var (
	evictions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_mix_evictions_total",
		Help: "Evictions and releases requested from the API server (result retired: the eviction of a released replica whose replacement is available), by mix (empty: the mix is not from a CapacityMix) and result.",
	}, []string{"namespace", "mix", "result"})
	moves = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_mix_moves_total",
		Help: "Moves that are over, by outcome: succeeded, failed (all replicas are available again, and the replacement is on the wrong type), timed-out (not all replicas became available), abandoned (the owner ended), not-evicted (the API server did not carry the eviction out) or not-provisioned (nothing was evicted, because no placeholder was scheduled in time).",
	}, []string{"outcome"})
	placeholders = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_mix_placeholders_total",
		Help: "Placeholder pods that were created, refused by the API server, used (their replica was evicted), dropped (not needed any more), or expired (lost, or too late).",
	}, []string{"result"})
	storms = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_mix_spot_storms_total",
		Help: "Times that so many spot nodes went away at once that all moves were stopped.",
	})
	reconcileSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "berth_mix_reconcile_duration_seconds",
		Help:    "Time to reconcile one workload (scope partial) or every one (scope all), moves included.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
	}, []string{"scope"})
	replaySeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "berth_mix_simulation_duration_seconds",
		Help:    "Time to find out by the scheduler's filters whether there is capacity for a replacement.",
		Buckets: prometheus.ExponentialBuckets(0.01, 2, 12),
	})
)

func init() {
	metrics.Registry.MustRegister(evictions, moves, placeholders, storms, reconcileSeconds, replaySeconds)
	for _, o := range []rebalance.Outcome{
		rebalance.Succeeded, rebalance.Failed, rebalance.TimedOut, rebalance.Abandoned, rebalance.NotEvicted, rebalance.NotProvisioned,
	} {
		moves.WithLabelValues(string(o))
	}
	for _, r := range []rebalance.Ended{holderCreated, holderRefused, rebalance.Used, rebalance.Dropped, rebalance.Expired} {
		placeholders.WithLabelValues(string(r))
	}
}

// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"time"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/internal/mix/rebalance"
)

// debounce is how long a changed workload waits.
const debounce = 200 * time.Millisecond

// Configured returns the options that the configuration of the controller has.
func Configured(cfg *controller.Configuration) Options {
	r := &cfg.Mix.Rebalance
	return Options{
		Namespaces: cfg.Namespaces, Debounce: debounce, Resync: seconds(cfg.ResyncSeconds),
		Grace:  seconds(r.StartupGraceSeconds),
		Tuning: TuningOf(cfg),
		Storm: rebalance.StormSettings{
			SharePercent: r.Storm.SharePercent, MinNodes: int(r.Storm.MinNodes), Window: seconds(r.Storm.WindowSeconds),
			Quiet: seconds(r.Storm.QuietSeconds),
		},
		Placeholders: Placeholders{Image: r.PlaceholderImage},
	}
}

// TuningOf returns what can be changed while the controller runs.
func TuningOf(cfg *controller.Configuration) Tuning {
	r := &cfg.Mix.Rebalance
	return Tuning{
		Canary:               canaryOf(&r.Canary),
		DryRun:               cfg.DryRun,
		Defaults:             rebalance.Defaults(r),
		ClusterMaxConcurrent: int(r.ClusterMaxConcurrent),
		ClusterMaxPerHour:    int(r.ClusterMaxMovesPerHour),
		Backoff:              seconds(r.BackoffSeconds), MaxBackoff: seconds(r.MaxBackoffSeconds),
		MoveTimeout: seconds(r.MoveTimeoutSeconds),
		Request:     r.Eviction == controller.EvictionRequest,
	}
}

// canaryOf is nil where all mixes are moved.
func canaryOf(c *controller.Canary) *rebalance.Canary {
	if c.Percent >= 100 {
		return nil
	}
	return &rebalance.Canary{Percent: int(c.Percent), Namespaces: c.Namespaces}
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

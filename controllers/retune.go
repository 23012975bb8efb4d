// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"time"

	"berth.dev/berth/apis/config/controller"
	envcontroller "berth.dev/berth/controllers/environments"
	"berth.dev/berth/controllers/mix/rebalance"
	decision "berth.dev/berth/internal/mix/rebalance"
)

// retune has the controllers go by a configuration, as far as reload.Fields are concerned.
func (p *parts) retune(cfg *controller.Configuration) {
	p.status.SetRepairs(repairsOf(cfg)) // before the decisions that it is for
	p.gates.SetDryRun(cfg.DryRun)
	p.rebalancer.Retune(rebalanceTuning(cfg))
	if p.environments != nil {
		p.environments.Retune(environmentTuning(&cfg.Environments))
	}
}

func repairsOf(cfg *controller.Configuration) int {
	if cfg.DryRun {
		return 0
	}
	return int(cfg.AnnotationRepairsPerMinute)
}

func rebalanceTuning(cfg *controller.Configuration) rebalance.Tuning {
	r := &cfg.Rebalance
	return rebalance.Tuning{
		DryRun: cfg.DryRun,
		Defaults: decision.Settings{
			Mode: decision.Mode(r.Mode), MaxConcurrent: int(r.MaxConcurrent), Stabilization: seconds(r.StabilizationSeconds),
			Provisioning: decision.Provisioning(r.Provisioning),
		},
		ClusterMaxConcurrent: int(r.ClusterMaxConcurrent),
		Backoff:              seconds(r.BackoffSeconds), MaxBackoff: seconds(r.MaxBackoffSeconds), MoveTimeout: seconds(r.MoveTimeoutSeconds),
	}
}

func environmentTuning(e *controller.Environments) envcontroller.Tuning {
	return envcontroller.Tuning{StartTimeout: seconds(e.StartTimeoutSeconds), CleanUp: seconds(e.CleanUpFailedSeconds), History: int(e.HistoryLimit)}
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

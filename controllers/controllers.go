// SPDX-License-Identifier: Apache-2.0

// Package controllers adds the controllers that a configuration names to a manager: mix, limits, policies, records and
// environments, the cluster state that mix, limits and policies share, and the admission webhook.
package controllers

import (
	"context"
	"time"

	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/apis/config/controller"
)

// parts holds what the controllers share.
type parts struct {
	mgr  ctrl.Manager
	cfg  *controller.Configuration
	kube kubernetes.Interface
	// cluster is set where mix, limits or policies runs.
	cluster
	// retunes apply the fields that take effect without a restart.
	retunes []func(*controller.Configuration)
}

// Add adds the controllers to a manager that is not started yet. The function that it returns applies another configuration
// to them, as far as reload.Fields are concerned.
func Add(mgr ctrl.Manager, cfg *controller.Configuration) (retune func(*controller.Configuration), err error) {
	p := &parts{mgr: mgr, cfg: cfg}
	if p.kube, err = kubernetes.NewForConfig(mgr.GetConfig()); err != nil {
		return nil, err
	}
	mix, limits := cfg.Runs(controller.ControllerMix), cfg.Runs(controller.ControllerLimits)
	policies := cfg.Runs(controller.ControllerPolicies)
	state := mix || limits || policies
	for _, part := range []struct {
		wanted bool
		add    func() error
	}{
		{state, p.addProfile},
		{limits, p.addLimits}, // before the cluster state, which fills its templates
		{state, p.addState},
		{mix, p.addMix},
		{policies, p.addPolicies},
		{state, p.addWatches},
		{cfg.Webhook.Enabled, p.addWebhook},
		{cfg.Runs(controller.ControllerRecords), p.addRecords},
		{cfg.Runs(controller.ControllerEnvironments), p.addEnvironments},
	} {
		if !part.wanted {
			continue
		}
		if err := part.add(); err != nil {
			return nil, err
		}
	}
	return func(cfg *controller.Configuration) {
		for _, retune := range p.retunes {
			retune(cfg)
		}
	}, nil
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// everywhere is a runnable that does not wait to lead.
type everywhere func(context.Context) error

var _ manager.LeaderElectionRunnable = everywhere(nil)

// Start implements manager.Runnable.
func (e everywhere) Start(ctx context.Context) error {
	if err := e(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }

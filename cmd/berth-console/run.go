// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/internal/cli/reports"
	"berth.dev/berth/internal/config/buildinfo"
	"berth.dev/berth/internal/config/program"
	kubeclient "berth.dev/berth/internal/kube/client"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/pricefeed"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/services/console"
)

// shutdownTimeout is what requests in flight have to come to their end.
const shutdownTimeout = 3 * time.Second

// run returns what serves the console with prices of nodes until the context ends.
func run(feed *pricefeed.Feed) program.Run {
	return func(ctx context.Context, c *controller.Configuration, src program.Source) error {
		return serve(ctx, c, src, feed)
	}
}

func serve(ctx context.Context, c *controller.Configuration, src program.Source, feed *pricefeed.Feed) error {
	log := ctrl.Log.WithName("berth-console")
	log.Info("Starting", "version", buildinfo.Version())
	settings, err := settingsOf(c)
	if err != nil {
		return err
	}
	config, err := program.ClientConfig(c.ClientConnection, "berth-console")
	if err != nil {
		return err
	}
	scheme, err := kubeclient.Scheme()
	if err != nil {
		return err
	}
	mgr, err := newManager(c, config, scheme)
	if err != nil {
		return err
	}
	own, err := client.New(config, client.Options{Scheme: scheme, Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return err
	}
	feed.AddOverlays(func(ctx context.Context) (*prices.Overlays, error) { return live.Overlays(ctx, own) })
	namespace := c.LeaderElection.Namespace
	if err := program.OwnNamespace(&namespace); err != nil {
		return err
	}
	s, err := console.New(console.Options{
		Config: c.Console, Namespace: namespace, API: config, Scheme: scheme, Mapper: mgr.GetRESTMapper(), Settings: settings,
		Prices: feed.Now, Log: log, Reports: func(configOf func(context.Context) (*rest.Config, error)) console.Reports {
			return reports.Reports{Connect: func(ctx context.Context) (*rest.Config, live.Installation, error) {
				user, err := configOf(ctx)
				return user, live.Installation{SystemNamespace: namespace, SchedulerConfig: c.SchedulerConfig}, err
			}}
		},
	})
	if err != nil {
		return err
	}
	err = errors.Join(mgr.Add(s), mgr.Add(manager.RunnableFunc(feed.Start)),
		mgr.AddReadyzCheck("console", s.Ready), mgr.AddHealthzCheck("ping", healthz.Ping))
	if err == nil && src.File != "" {
		err = mgr.Add(&program.Reloader{
			Source: src, Running: c, Log: log, Apply: func(c *controller.Configuration) { s.Retune(&c.Console) },
		})
	}
	if err != nil {
		return fmt.Errorf("add the console: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("serve the console: %w", err)
	}
	return nil
}

func newManager(c *controller.Configuration, config *rest.Config, scheme *runtime.Scheme) (ctrl.Manager, error) {
	metrics, err := program.MetricsOptions(c.Metrics)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: metrics, HealthProbeBindAddress: c.Health.BindAddress, GracefulShutdownTimeout: new(shutdownTimeout),
	})
	if err != nil {
		return nil, fmt.Errorf("create the manager: %w", err)
	}
	return mgr, nil
}

// settingsOf are the settings of the scheduler, as berth-controller has them.
func settingsOf(c *controller.Configuration) (*overview.Settings, error) {
	if c.SchedulerConfig == "" {
		return live.Defaults()
	}
	return live.FromFile(c.SchedulerConfig)
}

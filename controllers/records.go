// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"

	"k8s.io/utils/clock"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/controllers/records"
	"berth.dev/berth/internal/records/nfr"
	"berth.dev/berth/internal/records/prometheus"
	"berth.dev/berth/internal/records/render"
)

// addRecords adds the controller of DeploymentRecords.
func (p *parts) addRecords() error {
	d := &p.cfg.Records
	features := FeaturesOf(d)
	r, err := records.Add(p.mgr, records.Options{
		Client: p.mgr.GetClient(), Live: p.mgr.GetAPIReader(), Clock: clock.RealClock{},
		Recorder: p.recorder(records.FieldOwner),
		Settings: render.Settings{
			DefaultFunctionImage: d.DefaultFunctionImage, ODGM: features.ODGM, ODGMImage: d.ODGMImage, SchedulerName: d.SchedulerName,
			Router: d.RouterAddress(), Enforce: features.NFREnforcement && features.Prometheus, HPA: features.HPA, MaxReplicas: d.NFR.MaxReplicas,
			Reliability: render.Reliability{
				OnDemand: render.Number(d.Reliability.OnDemandAvailability), InterruptionsPerHour: render.Number(d.Reliability.InterruptionsPerHour),
				RecoveryMinutes: float64(d.Reliability.RecoveryMinutes),
			},
		},
		Environment: render.Environment{Profile: d.Profile, Edge: d.Environment.Edge, Datacenter: d.Environment.Datacenter},
		Features:    features, TemplateNamespace: d.TemplateNamespace, Namespaces: p.cfg.Namespaces,
	})
	if err != nil || !features.Prometheus {
		return err
	}
	c, err := prometheus.New(prometheus.Config{Address: d.Prometheus.URL, BearerTokenFile: d.Prometheus.BearerTokenFile, CAFile: d.Prometheus.CAFile})
	if err != nil {
		return fmt.Errorf("records.prometheus: %w", err)
	}
	n := &d.NFR
	return p.mgr.Add(&records.Analyzer{Reconciler: r, Prometheus: c, Limits: nfr.Settings{
		Stability: seconds(n.StabilitySeconds), Cooldown: seconds(n.CooldownSeconds), Interval: seconds(n.IntervalSeconds),
		MaxReplicas: int64(n.MaxReplicas), MaxDeltaPercent: int64(n.MaxReplicaDeltaPercent), TolerancePercent: int64(n.TolerancePercent),
	}})
}

// FeaturesOf returns the features of the configured profile.
func FeaturesOf(d *controller.Records) render.Features {
	measured := d.Prometheus.URL != ""
	f := &d.Features
	return render.FeaturesOf(d.Profile, render.Overrides{
		NFREnforcement: f.NFREnforcement, HPA: f.HPA, Knative: f.Knative, ODGM: f.ODGM, Prometheus: &measured,
	})
}

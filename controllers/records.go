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
	r := &p.cfg.Records
	features := FeaturesOf(r)
	o := records.Options{
		Client:            p.mgr.GetClient(),
		Live:              p.mgr.GetAPIReader(),
		Clock:             clock.RealClock{},
		Recorder:          p.recorder(records.FieldOwner),
		Settings:          recordSettings(r, features),
		Environment:       render.Environment{Profile: r.Profile, Edge: r.Environment.Edge, Datacenter: r.Environment.Datacenter},
		Features:          features,
		TemplateNamespace: r.TemplateNamespace,
		Namespaces:        p.cfg.Namespaces,
	}
	if features.Prometheus {
		var err error
		o.Prometheus, err = prometheus.New(prometheus.Config{
			Address:         r.Prometheus.URL,
			BearerTokenFile: r.Prometheus.BearerTokenFile,
			CAFile:          r.Prometheus.CAFile,
		})
		if err != nil {
			return fmt.Errorf("records.prometheus: %w", err)
		}
		o.Limits = nfrLimits(&r.NFR)
	}
	return records.New(o).SetupWithManager(p.mgr)
}

func recordSettings(r *controller.Records, features render.Features) render.Settings {
	return render.Settings{
		DefaultFunctionImage: r.DefaultFunctionImage,
		ODGM:                 features.ODGM,
		ODGMImage:            r.ODGMImage,
		SchedulerName:        r.SchedulerName,
		Router:               r.RouterAddress(),
		OTLPEndpoint:         r.OTLPEndpoint,
		Enforce:              features.NFREnforcement && features.Prometheus,
		HPA:                  features.HPA,
		MaxReplicas:          r.NFR.MaxReplicas,
		Reliability: render.Reliability{
			OnDemand:             render.Number(r.Reliability.OnDemandAvailability),
			InterruptionsPerHour: render.Number(r.Reliability.InterruptionsPerHour),
			RecoveryMinutes:      float64(r.Reliability.RecoveryMinutes),
		},
	}
}

func nfrLimits(n *controller.NFR) nfr.Settings {
	return nfr.Settings{
		Stability:        seconds(n.StabilitySeconds),
		Cooldown:         seconds(n.CooldownSeconds),
		Interval:         seconds(n.IntervalSeconds),
		MaxReplicas:      int64(n.MaxReplicas),
		MaxDeltaPercent:  int64(n.MaxReplicaDeltaPercent),
		TolerancePercent: int64(n.TolerancePercent),
	}
}

// FeaturesOf returns the features of the configured profile.
func FeaturesOf(r *controller.Records) render.Features {
	measured := r.Prometheus.URL != ""
	f := &r.Features
	return render.FeaturesOf(r.Profile, render.Overrides{
		NFREnforcement: f.NFREnforcement,
		HPA:            f.HPA,
		Knative:        f.Knative,
		ODGM:           f.ODGM,
		Prometheus:     &measured,
	})
}

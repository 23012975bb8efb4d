// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"k8s.io/utils/clock"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/controllers/deploymentrecord"
	"berth.dev/berth/internal/deployment"
)

// addDeployments adds what looks after DeploymentRecords, if it is wanted.
func (p *parts) addDeployments() error {
	d := &p.cfg.Deployments
	if !d.Enabled {
		return nil
	}
	features := FeaturesOf(d)
	_, err := deploymentrecord.Add(p.mgr, deploymentrecord.Options{
		Client: p.mgr.GetClient(), Live: p.mgr.GetAPIReader(), Clock: clock.RealClock{},
		Recorder: p.mgr.GetEventRecorderFor(deploymentrecord.FieldOwner),
		Settings: deployment.Settings{
			DefaultFunctionImage: d.DefaultFunctionImage, ODGM: features.ODGM, ODGMImage: d.ODGMImage, SchedulerName: d.SchedulerName,
			Reliability: deployment.Reliability{
				OnDemand: deployment.Number(d.Reliability.OnDemandAvailability), InterruptionsPerHour: deployment.Number(d.Reliability.InterruptionsPerHour),
				RecoveryMinutes: float64(d.Reliability.RecoveryMinutes),
			},
		},
		Environment: deployment.Environment{Profile: d.Profile, Edge: d.Environment.Edge, Datacenter: d.Environment.Datacenter},
		Features:    features, TemplateNamespace: d.TemplateNamespace, Namespaces: p.cfg.Namespaces,
	})
	return err
}

// FeaturesOf returns the features of the configured profile.
func FeaturesOf(d *controller.Deployments) deployment.Features {
	measured := d.Prometheus.URL != ""
	f := &d.Features
	return deployment.FeaturesOf(d.Profile, deployment.Overrides{
		NFREnforcement: f.NFREnforcement, HPA: f.HPA, Knative: f.Knative, ODGM: f.ODGM, Prometheus: &measured,
	})
}

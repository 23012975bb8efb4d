// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"fmt"

	"google.golang.org/grpc/codes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers"
	"berth.dev/berth/internal/config/buildinfo"
	internalenvironment "berth.dev/berth/internal/environments/render"
	internal "berth.dev/berth/internal/records/render"
	"berth.dev/berth/services/environments"
	"berth.dev/berth/services/limits"
	"berth.dev/berth/services/records"
	"berth.dev/berth/services/server"
)

// addServices adds the gRPC and REST services to a manager that is not started yet, if they are wanted. What it returns has
// them go by another configuration from then on, as far as reload.Fields are concerned.
func addServices(mgr ctrl.Manager, c *controller.Configuration) (retune func(*controller.Configuration), err error) {
	if !c.Services.Enabled() {
		return func(*controller.Configuration) {}, nil
	}
	s, err := server.New(c.Services, mgr.GetConfig(), ctrl.Log.WithName("services"))
	if err != nil {
		return nil, fmt.Errorf("add the services: %w", err)
	}
	if err := limits.Add(s, mgr.GetConfig(), c.Services.ResourceLimits.Namespace); err != nil {
		return nil, fmt.Errorf("add the services: %w", err)
	}
	err = records.Add(s, mgr.GetConfig(), records.Options{
		Namespace: c.Services.Deployments.Namespace, TemplateNamespace: c.Deployments.TemplateNamespace,
		Version: buildinfo.Version(), Nodes: mgr.GetCache(), Preconditions: deployable(c),
	})
	if err != nil {
		return nil, fmt.Errorf("add the services: %w", err)
	}
	if c.Environments.Enabled {
		err = environments.Add(s, mgr.GetConfig(), environments.Options{
			Namespace: c.Services.Environments.Namespace, TokenKey: tokenKey(mgr.GetConfig()),
			PortsPerNode:   internalenvironment.Exposure(c.Environments.Exposure) == internalenvironment.ExposeHostPort,
			KubeletSummary: c.Services.Environments.KubeletSummary, Log: ctrl.Log.WithName("audit"),
			Recorder: mgr.GetEventRecorderFor("berth-services"), Caller: server.Caller,
		})
		if err != nil {
			return nil, fmt.Errorf("add the services: %w", err)
		}
	}
	if err := mgr.Add(s); err != nil {
		return nil, fmt.Errorf("add the services: %w", err)
	}
	return func(c *controller.Configuration) { s.Retune(&c.Services) }, nil
}

// tokenKey is the same in all replicas and another in each cluster. It need not be secret: who makes up a token begins a page
// where they like, of what they may list.
func tokenKey(config *rest.Config) []byte {
	sum := sha256.Sum256(append([]byte("berth page tokens "+config.Host+" "+config.CAFile), config.CAData...))
	return sum[:]
}

// deployable refuses records that need what the configuration does not have.
func deployable(c *controller.Configuration) func(context.Context, *v1alpha1.DeploymentRecordSpec) error {
	odgm := controllers.FeaturesOf(&c.Deployments).ODGM
	return func(_ context.Context, spec *v1alpha1.DeploymentRecordSpec) error {
		if internal.NeedsODGM(spec) && !odgm {
			return server.Refuse(codes.FailedPrecondition, "the deployment asks for an ODGM, which is off: deployments.features.odgm of berth-controller's configuration")
		}
		if internal.HasODGM(spec, odgm) && c.Deployments.ODGMImage == "" {
			return server.Refuse(codes.FailedPrecondition, internal.ErrNoODGMImage.Error())
		}
		return nil
	}
}

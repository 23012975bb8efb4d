// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers"
	"berth.dev/berth/internal/config/buildinfo"
	recordrender "berth.dev/berth/internal/records/render"
	"berth.dev/berth/services/environments"
	"berth.dev/berth/services/limits"
	"berth.dev/berth/services/records"
	"berth.dev/berth/services/server"
)

// addServices adds the gRPC and REST services to a manager that is not started yet, if they are enabled. The function that it
// returns applies another configuration to them, as far as reload.Fields are concerned.
func addServices(mgr ctrl.Manager, c *controller.Configuration) (retune func(*controller.Configuration), err error) {
	if !c.Services.Enabled() {
		return func(*controller.Configuration) {}, nil
	}
	s, err := server.New(c.Services, mgr.GetConfig(), ctrl.Log.WithName("services"))
	if err != nil {
		return nil, fmt.Errorf("add the services: %w", err)
	}
	if err := addProducts(mgr, s, c); err != nil {
		return nil, fmt.Errorf("add the services: %w", err)
	}
	if err := errors.Join(mgr.Add(s), mgr.AddReadyzCheck("services", s.Ready)); err != nil {
		return nil, fmt.Errorf("add the services: %w", err)
	}
	return func(c *controller.Configuration) { s.Retune(&c.Services) }, nil
}

// addProducts adds the services of limits and records where one of mix, limits and records runs, or no controller, and that of
// environments where environments runs.
func addProducts(mgr ctrl.Manager, s *server.Server, c *controller.Configuration) error {
	runsAny := slices.ContainsFunc([]string{controller.ControllerMix, controller.ControllerLimits, controller.ControllerRecords}, c.Runs)
	if runsAny || c.ServesOnly() {
		if err := limits.Add(s, mgr.GetConfig(), c.Services.Limits.Namespace); err != nil {
			return err
		}
		err := records.Add(s, mgr.GetConfig(), records.Options{
			Namespace: c.Services.Records.Namespace, TemplateNamespace: c.Records.TemplateNamespace,
			Version: buildinfo.Version(), Nodes: mgr.GetCache(), Preconditions: deployable(c),
		})
		if err != nil {
			return err
		}
	}
	if !c.Runs(controller.ControllerEnvironments) {
		return nil
	}
	return environments.Add(s, mgr.GetConfig(), environments.Options{
		Namespace: c.Services.Environments.Namespace, TokenKey: tokenKey(mgr.GetConfig()),
		Exposure:       c.Environments.Exposure,
		KubeletSummary: c.Services.Environments.KubeletSummary, Log: ctrl.Log.WithName("audit"),
	})
}

// tokenKey is the same in all replicas and another in each cluster. It need not be secret: a forged token begins a page
// anywhere in what its caller may list.
func tokenKey(config *rest.Config) []byte {
	sum := sha256.Sum256(append([]byte("berth page tokens "+config.Host+" "+config.CAFile), config.CAData...))
	return sum[:]
}

// deployable refuses records that need what the configuration does not have.
func deployable(c *controller.Configuration) func(context.Context, *v1alpha1.DeploymentRecordSpec) error {
	odgm := controllers.FeaturesOf(&c.Records).ODGM
	return func(_ context.Context, spec *v1alpha1.DeploymentRecordSpec) error {
		if recordrender.NeedsODGM(spec) && !odgm {
			return server.Refuse(codes.FailedPrecondition,
				"the deployment requires an ODGM, which is off: records.features.odgm in the configuration of the controller")
		}
		if recordrender.HasODGM(spec, odgm) && c.Records.ODGMImage == "" {
			return server.Refuse(codes.FailedPrecondition, recordrender.ErrNoODGMImage.Error())
		}
		return nil
	}
}

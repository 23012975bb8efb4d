// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/services/resourcelimit"
	"berth.dev/berth/services/server"
)

// addServices adds the gRPC and REST services to a manager that is not started yet, if they are wanted.
func addServices(mgr ctrl.Manager, c *controller.Configuration) error {
	if !c.Services.Enabled() {
		return nil
	}
	s, err := server.New(c.Services, mgr.GetConfig(), ctrl.Log.WithName("services"))
	if err != nil {
		return fmt.Errorf("add the services: %w", err)
	}
	if err := resourcelimit.Add(s, mgr.GetConfig(), c.Services.ResourceLimits.Namespace); err != nil {
		return fmt.Errorf("add the services: %w", err)
	}
	if err := mgr.Add(s); err != nil {
		return fmt.Errorf("add the services: %w", err)
	}
	return nil
}

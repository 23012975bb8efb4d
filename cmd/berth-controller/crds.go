// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	kubeclient "berth.dev/berth/internal/kube/client"
)

const (
	crdPollInterval = 2 * time.Second
	// probeTimeout bounds reading a probe's request, and ending the server of the probes.
	probeTimeout = 5 * time.Second
)

// requiredCRDs returns the resources that the controllers of a configuration watch.
func requiredCRDs(c *controller.Configuration) []schema.GroupVersionResource {
	var names []string
	policies := c.Runs(controller.ControllerPolicies)
	if c.Runs(controller.ControllerMix) || c.Runs(controller.ControllerLimits) || policies { // they share the cluster state
		names = append(names, "capacitymixes", "resourcelimits")
	}
	if policies {
		names = append(names, "schedulingpolicies")
	}
	if c.Runs(controller.ControllerRecords) {
		names = append(names, "deploymentrecords", "deploymenttemplates")
	}
	if c.Runs(controller.ControllerEnvironments) {
		names = append(names, "environments", "databasebackups", "databasebackupschedules", "databaserestores")
	}
	required := make([]schema.GroupVersionResource, len(names))
	for i, name := range names {
		required[i] = v1alpha1.SchemeGroupVersion.WithResource(name)
	}
	return required
}

// waitForCRDs returns once the API server serves all required CRDs, or the context ends. Until then it answers the
// kubelet's probes, alive but not ready with the reason: a manager that starts too early ends with a timeout.
func waitForCRDs(ctx context.Context, api kubeclient.Discovery, needed []schema.GroupVersionResource, health controller.Health) error {
	missing := missingCRDs(ctx, api, needed)
	if missing == nil {
		return nil
	}
	log := ctrl.LoggerFrom(ctx)
	log.Info("Waiting for required CRDs", "missing", missing.Error())
	var reason atomic.Value
	reason.Store(missing.Error())
	stop, err := serveNotReady(ctx, health.BindAddress, func() string { return reason.Load().(string) })
	if err != nil {
		return err
	}
	err = wait.PollUntilContextCancel(ctx, crdPollInterval, false, func(ctx context.Context) (bool, error) {
		missing := missingCRDs(ctx, api, needed)
		if missing == nil {
			return true, nil
		}
		if before := reason.Swap(missing.Error()); before != missing.Error() {
			log.Info("Still waiting for required CRDs", "missing", missing.Error())
		}
		return false, nil
	})
	if err == nil { // otherwise the context has ended
		log.Info("All required CRDs are established")
	}
	return stop()
}

// missingCRDs returns an error that names what is missing, or why that is not known.
func missingCRDs(ctx context.Context, api kubeclient.Discovery, needed []schema.GroupVersionResource) error {
	var missing []error
	for _, crd := range needed {
		switch served, err := kubeclient.Serves(ctx, api, crd); {
		case err != nil:
			missing = append(missing, fmt.Errorf("crd: %s: discovery: %w", crd.GroupResource(), err))
		case !served:
			missing = append(missing, fmt.Errorf("crd: %s is not installed", crd.GroupResource()))
		}
	}
	return errors.Join(missing...)
}

// serveNotReady answers /healthz with OK and /readyz with the reason. The manager's server, which takes its place, keeps
// reasons to itself.
func serveNotReady(ctx context.Context, address string, reason func() string) (stop func() error, err error) {
	if address == controller.Disabled {
		return func() error { return nil }, nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not ready: "+strings.ReplaceAll(reason(), "\n", "; "), http.StatusServiceUnavailable)
	})
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve probes: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: probeTimeout}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
		defer cancel()
		// The address must be free when the manager takes it.
		if err := server.Shutdown(ctx); err != nil {
			_ = server.Close()
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve probes: %w", err)
		}
		return nil
	}, nil
}

// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// BerthControllerUser is the identity that the manifests' RBAC is written for.
const BerthControllerUser = "system:serviceaccount:berth-system:berth-controller"

// BerthRecordsUser is that of the process which runs DeploymentRecords and their services alone.
const BerthRecordsUser = "system:serviceaccount:berth-system:berth-records"

// BerthEnvironmentsUser is that of the process which runs Environments alone.
const BerthEnvironmentsUser = "system:serviceaccount:berth-system:berth-environments"

// BerthConsoleUser is that of the process which serves the console.
const BerthConsoleUser = "system:serviceaccount:berth-system:berth-console"

// Controller is a running controller, or a program with the same flags.
type Controller struct {
	*server
	// HealthURL is the address of /healthz and /readyz.
	HealthURL string
	// ConfigFile is what it was started with.
	ConfigFile string
}

// StartController starts a controller and, unless o.NoWait is set, waits until it is ready. A standby replica is ready.
func (c *Cluster) StartController(ctx context.Context, o ProgramOptions) (*Controller, error) {
	o.Name, o.User = cmp.Or(o.Name, "berth-controller"), cmp.Or(o.User, BerthControllerUser)
	p := &program{ProgramOptions: o}
	if err := c.prepareProgram(p); err != nil {
		return nil, err
	}
	metrics, probes := loopback(p.ports[0]), loopback(p.ports[1])
	p.Args = []string{"--kubeconfig=" + p.Kubeconfig, "--metrics-bind-address=" + metrics, "--health-probe-bind-address=" + probes}
	if o.ConfigFile != "" {
		p.Args = append(p.Args, "--config="+o.ConfigFile)
	}
	p.Args = append(p.Args, o.Args...)
	healthURL := "http://" + probes
	p.url, p.ready = "https://"+metrics, []string{healthURL + "/readyz"}
	p.token = c.pki.adminToken // it takes no client certificates
	s, err := c.startProgram(ctx, p)
	if err != nil {
		return nil, err
	}
	return &Controller{s, healthURL, o.ConfigFile}, nil
}

// Ready requests /readyz once and returns whether the controller is ready, and the body.
func (c *Controller) Ready(ctx context.Context) (bool, string, error) {
	status, body, err := get(ctx, c.client, c.HealthURL+"/readyz", "")
	return status == http.StatusOK, string(body), err
}

// Get reads a path of the secure port, such as /metrics, as a cluster administrator. That port may open a moment after the
// controller is ready.
func (c *Controller) Get(ctx context.Context, path string) (body []byte, err error) {
	const moment = 10 * time.Second
	pollErr := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, moment, true, func(ctx context.Context) (bool, error) {
		body, err = c.server.Get(ctx, path)
		return !errors.Is(err, syscall.ECONNREFUSED), nil
	})
	if err == nil {
		err = pollErr
	}
	return body, err
}

// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"io"
)

// EvictionControllers are the controllers of EvictionRequests that kube-controller-manager has from Kubernetes 1.38 on, for Binary.
const EvictionControllers = "eviction-controllers"

// StartEvictionControllers starts the controllers of EvictionRequests beside a control plane that serves the API and has none of them.
func (c *Cluster) StartEvictionControllers(ctx context.Context, out io.Writer) (*Process, error) {
	binary, err := Binary(ctx, out, EvictionControllers)
	if err != nil {
		return nil, err
	}
	return c.StartProcess(ctx, ProcessSpec{
		Name: EvictionControllers, Path: binary, Args: []string{"--kubeconfig=" + c.KubeconfigPath(), "-v=4"},
	})
}

// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	oaashealth "berth.dev/berth/apis/proto/oaas/health"
	"berth.dev/berth/services/server"
)

// What a cluster can be.
const (
	healthy  = "Healthy"
	degraded = "Degraded"
)

// crm serves the state of the cluster.
type crm struct {
	access  server.Authorizer
	nodes   client.Reader
	version string
}

func crmDescription() *grpc.ServiceDesc {
	d := oaashealth.CrmInfoService_ServiceDesc
	return &grpc.ServiceDesc{
		ServiceName: d.ServiceName, HandlerType: (*any)(nil), Metadata: d.Metadata,
		Methods: []grpc.MethodDesc{
			server.Unary("GetEnvHealth", (*crm).env),
			server.Unary("GetClusterHealth", (*crm).cluster),
		},
	}
}

func (c *crm) env(ctx context.Context, req *oaashealth.CrmEnvRequest) (*oaashealth.CrmEnvHealth, error) {
	return c.answer(ctx, req.GetEnv())
}

func (c *crm) cluster(ctx context.Context, req *oaashealth.CrmClusterRequest) (*oaashealth.CrmEnvHealth, error) {
	return c.answer(ctx, req.GetCluster())
}

// answer counts the nodes for someone who may list them. The name is not looked at: there is one cluster.
func (c *crm) answer(ctx context.Context, name string) (*oaashealth.CrmEnvHealth, error) {
	if err := c.access.Authorize(ctx, server.Access{Verb: "list", Version: "v1", Resource: "nodes"}); err != nil {
		return nil, err
	}
	var nodes corev1.NodeList
	// They are only looked at, and there may be thousands.
	if err := c.nodes.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	ready := 0
	for i := range nodes.Items {
		if isReady(&nodes.Items[i]) {
			ready++
		}
	}
	out := clusterHealth(ready, len(nodes.Items))
	out.EnvName, out.CrmVersion, out.LastSeen = name, &c.version, timestamp(time.Now())
	return out, nil
}

// clusterHealth is healthy while more than half of the nodes are ready: where spot nodes come and go, some never are.
func clusterHealth(ready, nodes int) *oaashealth.CrmEnvHealth {
	h := &oaashealth.CrmEnvHealth{Status: degraded, NodeCount: new(uint32(nodes)), ReadyNodes: new(uint32(ready))} //nolint:gosec // counts
	if 2*ready > nodes {
		h.Status = healthy
	}
	if nodes > 0 {
		h.Availability = new(float64(ready) / float64(nodes))
	}
	return h
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

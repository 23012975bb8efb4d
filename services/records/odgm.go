// SPDX-License-Identifier: Apache-2.0

package records

import (
	"fmt"
	"math"

	oaasdeployment "berth.dev/berth/apis/proto/oaas/deployment"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/services/server"
)

func (r *reader) odgm(path string, in *oaasdeployment.OdgmConfig) *v1alpha1.ODGMConfig {
	if in == nil {
		return nil
	}
	c := &v1alpha1.ODGMConfig{
		Collections:    in.GetCollections(),
		PartitionCount: r.optional(path+".partition_count", in.PartitionCount),
		ReplicaCount:   r.optional(path+".replica_count", in.ReplicaCount),
		ShardType:      in.GetShardType(),
		Invocations:    r.invocations(path+".invocations", in.GetInvocations()),
		Options:        server.Texts[v1alpha1.AttributeValue](in.GetOptions()),
		Log:            in.GetLog(),
		NodeID:         r.optionalNode(path+".odgm_node_id", in.OdgmNodeId),
	}
	if ids := in.GetEnvNodeIds(); len(ids) > 0 {
		c.NodeIDs = map[string]v1alpha1.NodeIDs{}
		for env, list := range ids {
			c.NodeIDs[env] = r.nodes(fmt.Sprintf("%s.env_node_ids[%s].ids", path, env), list.GetIds())
			if c.NodeIDs[env] == nil {
				c.NodeIDs[env] = v1alpha1.NodeIDs{} // a list, which null is not
			}
		}
	}
	if assignments := in.GetCollectionAssignments(); len(assignments) > 0 {
		c.Assignments = map[string]v1alpha1.ShardAssignments{}
		for name, list := range assignments {
			shards := v1alpha1.ShardAssignments{}
			for i, a := range list.GetAssignments() {
				at := fmt.Sprintf("%s.collection_assignments[%s].assignments[%d]", path, name, i)
				shards = append(shards, v1alpha1.ShardAssignment{
					Primary: r.optionalNode(at+".primary", a.Primary),
					Replica: r.nodes(at+".replica", a.GetReplica()), ShardIDs: r.nodes(at+".shard_ids", a.GetShardIds()),
				})
			}
			c.Assignments[name] = shards
		}
	}
	return c
}

func (r *reader) invocations(path string, in *oaasdeployment.InvocationRoutes) *v1alpha1.InvocationRoutes {
	if in == nil {
		return nil
	}
	out := &v1alpha1.InvocationRoutes{Disabled: in.GetDisabledFn()}
	for name, route := range in.GetFnRoutes() {
		if out.Routes == nil {
			out.Routes = map[string]v1alpha1.FunctionRoute{}
		}
		out.Routes[name] = v1alpha1.FunctionRoute{
			URL: route.GetUrl(), FunctionKey: route.GetFunctionKey(), Stateless: route.Stateless, Standby: route.Standby,
			ActiveGroup: r.nodes(fmt.Sprintf("%s.fn_routes[%s].active_group", path, name), route.GetActiveGroup()),
		}
	}
	return out
}

func (r *reader) nodes(path string, in []uint64) (out v1alpha1.NodeIDs) {
	for i, n := range in {
		out = append(out, r.node(fmt.Sprintf("%s[%d]", path, i), n))
	}
	return out
}

func (r *reader) optionalNode(path string, n *uint64) *int64 {
	if n == nil {
		return nil
	}
	return new(r.node(path, *n))
}

// node reads the number of a node or a shard. JSON as the API server reads it has no number above that of an int64.
func (r *reader) node(path string, n uint64) int64 {
	if n > math.MaxInt64 {
		r.refuse(path, fmt.Sprintf("is %d, and must be at most %d", n, int64(math.MaxInt64)))
		return 0
	}
	return int64(n)
}

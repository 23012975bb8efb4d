// SPDX-License-Identifier: Apache-2.0

package records

import (
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
		Invocations:    invocations(in.GetInvocations()),
		Options:        server.Texts[v1alpha1.AttributeValue](in.GetOptions()),
		Log:            in.GetLog(),
		NodeID:         v1alpha1.OptionalNodeID(in.OdgmNodeId),
	}
	if ids := in.GetEnvNodeIds(); len(ids) > 0 {
		c.NodeIDs = map[string]v1alpha1.NodeIDs{}
		for env, list := range ids {
			c.NodeIDs[env] = v1alpha1.NodeIDsOf(list.GetIds())
			if c.NodeIDs[env] == nil {
				c.NodeIDs[env] = v1alpha1.NodeIDs{} // a list, which null is not
			}
		}
	}
	if assignments := in.GetCollectionAssignments(); len(assignments) > 0 {
		c.Assignments = map[string]v1alpha1.ShardAssignments{}
		for name, list := range assignments {
			shards := v1alpha1.ShardAssignments{}
			for _, a := range list.GetAssignments() {
				shards = append(shards, v1alpha1.ShardAssignment{
					Primary: v1alpha1.OptionalNodeID(a.Primary), Replica: v1alpha1.NodeIDsOf(a.GetReplica()),
					ShardIDs: v1alpha1.NodeIDsOf(a.GetShardIds()),
				})
			}
			c.Assignments[name] = shards
		}
	}
	return c
}

func invocations(in *oaasdeployment.InvocationRoutes) *v1alpha1.InvocationRoutes {
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
			ActiveGroup: v1alpha1.NodeIDsOf(route.GetActiveGroup()),
		}
	}
	return out
}

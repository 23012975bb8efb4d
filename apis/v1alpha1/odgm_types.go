// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"math"
	"strconv"
)

// ODGMConfig configures the object data grid manager (ODGM).
type ODGMConfig struct {
	// collections are the names of the collections of the ODGM, at most 64.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Collections []string `json:"collections,omitempty"`

	// partitionCount is the number of partitions of a collection, from 1 to 65536. Defaults to 1.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	// +optional
	PartitionCount *int32 `json:"partitionCount,omitempty"`

	// replicaCount is the number of replicas of a partition, from 1 to 64. Without nodeIDs, the ODGM has as many members.
	// Defaults to 1.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +optional
	ReplicaCount *int32 `json:"replicaCount,omitempty"`

	// shardType is the protocol that keeps the replicas of a partition consistent. Defaults to none.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	ShardType string `json:"shardType,omitempty"`

	// invocations specifies where the ODGM sends calls.
	//
	// +optional
	Invocations *InvocationRoutes `json:"invocations,omitempty"`

	// options are passed to every collection, at most 64.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Options map[string]AttributeValue `json:"options,omitempty"`

	// log is the log filter of the ODGM.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Log string `json:"log,omitempty"`

	// nodeID is the number of the ODGM among its peers, or of the first of its members.
	//
	// +kubebuilder:validation:XValidation:rule="size(self) < 20 || self <= '18446744073709551615'",message="nodeID must be at most 18446744073709551615"
	// +optional
	NodeID *NodeID `json:"nodeID,omitempty"`

	// nodeIDs are the numbers of the peers by environment, at most 64 environments. The ODGM has a member for each number
	// of the record's targetEnvironment.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(env, self[env].all(id, size(id) < 20 || id <= '18446744073709551615'))",message="nodeIDs must be at most 18446744073709551615 each"
	// +optional
	NodeIDs map[string]NodeIDs `json:"nodeIDs,omitempty"`

	// assignments are the shards of the collections by name of the collection, at most 64.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Assignments map[string]ShardAssignments `json:"assignments,omitempty"`
}

// NodeID is the number of an ODGM node or shard: decimal digits without leading zeros, from 0 to 18446744073709551615. It is
// text, because JSON numbers of Kubernetes objects are exact only up to 9223372036854775807.
//
// +kubebuilder:validation:MaxLength=20
// +kubebuilder:validation:Pattern=`^(0|[1-9][0-9]*)$`
type NodeID string

// NodeIDOf returns the NodeID of a number.
func NodeIDOf(n uint64) NodeID { return NodeID(strconv.FormatUint(n, 10)) }

// OptionalNodeID returns the NodeID of a number, nil for nil.
func OptionalNodeID(n *uint64) *NodeID {
	if n == nil {
		return nil
	}
	return new(NodeIDOf(*n))
}

// Number returns the number of a NodeID. It returns an error if the NodeID is none.
func (id NodeID) Number() (uint64, error) {
	n, err := strconv.ParseUint(string(id), 10, 64)
	if err != nil || NodeIDOf(n) != id {
		return 0, fmt.Errorf("%q is not a number from 0 to %d without leading zeros", string(id), uint64(math.MaxUint64))
	}
	return n, nil
}

// NodeIDs are numbers of ODGM nodes.
//
// +kubebuilder:validation:MaxItems=64
// +listType=atomic
type NodeIDs []NodeID

// NodeIDsOf returns the NodeIDs of numbers.
func NodeIDsOf(numbers []uint64) (ids NodeIDs) {
	for _, n := range numbers {
		ids = append(ids, NodeIDOf(n))
	}
	return ids
}

// ShardAssignments are the shards of a collection.
//
// +kubebuilder:validation:MaxItems=64
// +listType=atomic
type ShardAssignments []ShardAssignment

// ShardAssignment specifies the ODGM nodes that store a partition.
type ShardAssignment struct {
	// primary is the number of the leading node.
	//
	// +kubebuilder:validation:XValidation:rule="size(self) < 20 || self <= '18446744073709551615'",message="primary must be at most 18446744073709551615"
	// +optional
	Primary *NodeID `json:"primary,omitempty"`

	// replica are the numbers of the nodes that have a copy.
	//
	// +kubebuilder:validation:XValidation:rule="self.all(id, size(id) < 20 || id <= '18446744073709551615')",message="replica must be at most 18446744073709551615 each"
	// +optional
	Replica NodeIDs `json:"replica,omitempty"`

	// shardIDs are the numbers of the shards.
	//
	// +kubebuilder:validation:XValidation:rule="self.all(id, size(id) < 20 || id <= '18446744073709551615')",message="shardIDs must be at most 18446744073709551615 each"
	// +optional
	ShardIDs NodeIDs `json:"shardIDs,omitempty"`
}

// InvocationRoutes specifies where the ODGM sends calls.
type InvocationRoutes struct {
	// routes are the routes by method, at most 256. Calls of methods without a route go to the functions of the record.
	//
	// +kubebuilder:validation:MaxProperties=256
	// +optional
	Routes map[string]FunctionRoute `json:"routes,omitempty"`

	// disabled are the methods that the ODGM does not offer, at most 256.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Disabled []string `json:"disabled,omitempty"`
}

// FunctionRoute specifies where the calls of a method are sent.
type FunctionRoute struct {
	// url is the URL that receives the calls.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	URL string `json:"url,omitempty"`

	// functionKey is the name of the function that receives the calls.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	FunctionKey string `json:"functionKey,omitempty"`

	// stateless specifies that the method needs no object.
	//
	// +optional
	Stateless *bool `json:"stateless,omitempty"`

	// standby specifies that the route is used only if no other responds.
	//
	// +optional
	Standby *bool `json:"standby,omitempty"`

	// activeGroup are the numbers of the ODGM nodes that call the route.
	//
	// +kubebuilder:validation:XValidation:rule="self.all(id, size(id) < 20 || id <= '18446744073709551615')",message="activeGroup must be at most 18446744073709551615 each"
	// +optional
	ActiveGroup NodeIDs `json:"activeGroup,omitempty"`
}

// ODGMStatus is the observed status of the object data grid manager (ODGM).
type ODGMStatus struct {
	// service is the name of the ODGM's Service.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Service string `json:"service,omitempty"`

	// address is the host and port at which functions connect to the ODGM.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Address string `json:"address,omitempty"`

	// ready is true if all replicas of the ODGM are ready.
	//
	// +optional
	Ready bool `json:"ready,omitempty"`
}

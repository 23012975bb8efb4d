// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// ODGMConfig configures the object data grid manager.
type ODGMConfig struct {
	// collections are the names of the collections that it keeps, at most 64.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Collections []string `json:"collections,omitempty"`

	// partitionCount is how many partitions a collection has. Absent means 1.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	// +optional
	PartitionCount *int32 `json:"partitionCount,omitempty"`

	// replicaCount is how many replicas a partition has. Absent means 1.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +optional
	ReplicaCount *int32 `json:"replicaCount,omitempty"`

	// shardType is how replicas of a partition agree. Absent means none.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	ShardType string `json:"shardType,omitempty"`

	// invocations say where the ODGM sends calls.
	//
	// +optional
	Invocations *InvocationRoutes `json:"invocations,omitempty"`

	// options are passed on to every collection, at most 64.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Options map[string]AttributeValue `json:"options,omitempty"`

	// log is the ODGM's log filter.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Log string `json:"log,omitempty"`

	// nodeID is the ODGM's number among its peers.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9223372036854774784
	// +optional
	NodeID *int64 `json:"nodeID,omitempty"`

	// nodeIDs are the numbers of the peers, by environment, at most 64 environments.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	NodeIDs map[string]NodeIDs `json:"nodeIDs,omitempty"`

	// assignments are the shards of the collections, by name, at most 64.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Assignments map[string]ShardAssignments `json:"assignments,omitempty"`
}

// NodeIDs are numbers of ODGM nodes.
//
// +kubebuilder:validation:MaxItems=64
// +kubebuilder:validation:items:Minimum=0
// +kubebuilder:validation:items:Maximum=9223372036854774784
// +listType=atomic
type NodeIDs []int64

// ShardAssignments are the shards of a collection.
//
// +kubebuilder:validation:MaxItems=64
// +listType=atomic
type ShardAssignments []ShardAssignment

// ShardAssignment says which ODGM nodes keep a partition.
type ShardAssignment struct {
	// primary is the node that leads.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9223372036854774784
	// +optional
	Primary *int64 `json:"primary,omitempty"`

	// replica are the nodes that have a copy.
	//
	// +optional
	Replica NodeIDs `json:"replica,omitempty"`

	// shardIDs are the numbers of the shards.
	//
	// +optional
	ShardIDs NodeIDs `json:"shardIDs,omitempty"`
}

// InvocationRoutes say where the ODGM sends calls.
type InvocationRoutes struct {
	// routes are the routes by method, at most 256. Methods without one go to the functions of the record.
	//
	// +kubebuilder:validation:MaxProperties=256
	// +optional
	Routes map[string]FunctionRoute `json:"routes,omitempty"`

	// disabled are methods that are not offered, at most 256.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Disabled []string `json:"disabled,omitempty"`
}

// FunctionRoute is where a method is called.
type FunctionRoute struct {
	// url is the address.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	URL string `json:"url,omitempty"`

	// functionKey names the function behind it.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	FunctionKey string `json:"functionKey,omitempty"`

	// stateless says that it needs no object.
	//
	// +optional
	Stateless *bool `json:"stateless,omitempty"`

	// standby says that it is called only where others do not answer.
	//
	// +optional
	Standby *bool `json:"standby,omitempty"`

	// activeGroup are the ODGM nodes that call it.
	//
	// +optional
	ActiveGroup NodeIDs `json:"activeGroup,omitempty"`
}

// ODGMStatus is how the object data grid manager stands.
type ODGMStatus struct {
	// service is the name of its Service.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Service string `json:"service,omitempty"`

	// address is where functions reach it: host and port.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Address string `json:"address,omitempty"`

	// ready says whether all its replicas are.
	//
	// +optional
	Ready bool `json:"ready,omitempty"`
}

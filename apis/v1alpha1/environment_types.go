// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EnvironmentSpec defines a whole application: a database, a backend, a frontend and additional services, started in
// order.
//
// +kubebuilder:validation:XValidation:rule="has(self.stack.frontend) || has(self.stack.backend) || has(self.stack.database) || has(self.stack.additionalServices) && size(self.stack.additionalServices) > 0",message="stack must have a component: frontend, backend, database or one of additionalServices",fieldPath=".stack"
type EnvironmentSpec struct {
	// displayName is the human-readable name of the environment. The gRPC service creates no two environments with the
	// same displayName in one namespace. Defaults to the name of the object.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// description is a human-readable description of the environment, at most 4096 characters.
	//
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Description string `json:"description,omitempty"`

	// labels are labels of the client for listing environments, at most 64. They are not Kubernetes labels, and keys
	// and values may be any text.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Labels map[string]AttributeValue `json:"labels,omitempty"`

	// runPolicy specifies whether the environment runs: Running or Stopped. A stopped environment keeps its volumes,
	// ports and Services. Defaults to Running.
	//
	// +kubebuilder:default=Running
	// +optional
	RunPolicy RunPolicy `json:"runPolicy,omitempty"`

	// forceStop terminates containers immediately, without their termination grace period. It applies only with
	// runPolicy Stopped.
	//
	// +optional
	ForceStop bool `json:"forceStop,omitempty"`

	// restartedAt is when a restart was last requested. Whenever it changes, all components are replaced, stage by
	// stage.
	//
	// +optional
	RestartedAt *metav1.Time `json:"restartedAt,omitempty"`

	// startTimeoutSeconds is the time after which an environment that has not started is Failed, in seconds from 10 to
	// 86400. Defaults to the controller's configuration.
	//
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	// +optional
	StartTimeoutSeconds *int32 `json:"startTimeoutSeconds,omitempty"`

	// cleanUpFailedSeconds is the time after the start timeout after which the objects of an environment that has not
	// started are deleted, in seconds from 0 to 604800, so that no part of it holds capacity. 0 never deletes them. Defaults
	// to the controller's configuration.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	// +optional
	CleanUpFailedSeconds *int32 `json:"cleanUpFailedSeconds,omitempty"`

	// stack defines the components of the environment.
	//
	// +required
	Stack ApplicationStack `json:"stack"`

	// network specifies which clients can connect to the environment.
	//
	// +optional
	Network *EnvironmentNetwork `json:"network,omitempty"`

	// placement specifies the nodes on which the environment runs. Defaults to the controller's configuration.
	//
	// +optional
	Placement *EnvironmentPlacement `json:"placement,omitempty"`

	// volumeRetention specifies what happens to the volumes when the environment is deleted: Delete or Retain. Defaults
	// to Delete.
	//
	// +kubebuilder:default=Delete
	// +optional
	VolumeRetention VolumeRetention `json:"volumeRetention,omitempty"`
}

// RunPolicy specifies whether an environment runs.
//
// +kubebuilder:validation:Enum=Running;Stopped
type RunPolicy string

const (
	// RunPolicyRunning runs all components.
	RunPolicyRunning RunPolicy = "Running"
	// RunPolicyStopped runs no component.
	RunPolicyStopped RunPolicy = "Stopped"
)

// VolumeRetention specifies what happens to volumes when their environment is deleted.
//
// +kubebuilder:validation:Enum=Delete;Retain
type VolumeRetention string

const (
	// VolumeRetentionDelete deletes the volumes with the environment.
	VolumeRetentionDelete VolumeRetention = "Delete"
	// VolumeRetentionRetain keeps the PersistentVolumeClaims, and their namespace.
	VolumeRetentionRetain VolumeRetention = "Retain"
)

// ApplicationStack defines the components of an environment. They are started in the order database, additional
// services, backend, frontend, each stage once the one before it is ready, and stopped in reverse order.
type ApplicationStack struct {
	// name is the name of the stack.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`

	// version is the version of the stack, any text.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Version string `json:"version,omitempty"`

	// frontend is the component that serves users. Within the environment, its host name is "frontend".
	//
	// +optional
	Frontend *FrontendComponent `json:"frontend,omitempty"`

	// backend is the component that serves the frontend. Within the environment, its host name is "backend".
	//
	// +optional
	Backend *BackendComponent `json:"backend,omitempty"`

	// database is a PostgreSQL database. Within the environment, its host name is "database".
	//
	// +optional
	Database *DatabaseComponent `json:"database,omitempty"`

	// additionalServices are additional components, at most 32. Within the environment, the host name of each is its
	// name.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	// +optional
	AdditionalServices []AdditionalService `json:"additionalServices,omitempty"`
}

// FrontendComponent is the component that serves users.
type FrontendComponent struct {
	// container is the container of the component.
	//
	// +required
	Container EnvironmentContainer `json:"container"`

	// replicas is the number of replicas, from 0 to 1000. Defaults to 1.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// autoscaling changes the number of replicas with the usage. replicas is then the number at the start. Defaults to
	// none.
	//
	// +optional
	Autoscaling *EnvironmentAutoscaling `json:"autoscaling,omitempty"`

	// domains are the host names of the frontend outside of the cluster, at most 32. They are served by an Ingress, or
	// by HTTPRoutes if a Gateway is configured for the controller.
	//
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Domains []string `json:"domains,omitempty"`

	// tlsEnabled serves the domains over TLS: an Ingress uses the certificate of the Secret frontend-tls, a Gateway its
	// TLS listener only.
	//
	// +optional
	TLSEnabled bool `json:"tlsEnabled,omitempty"`
}

// BackendComponent is the component that serves the frontend. If there is a database, its environment variable
// DATABASE_URL is the connection string.
type BackendComponent struct {
	// container is the container of the component.
	//
	// +required
	Container EnvironmentContainer `json:"container"`

	// replicas is the number of replicas, from 0 to 1000. Defaults to 1.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// autoscaling changes the number of replicas with the usage. replicas is then the number at the start. Defaults to
	// none.
	//
	// +optional
	Autoscaling *EnvironmentAutoscaling `json:"autoscaling,omitempty"`

	// secretRef is a Secret in the namespace of the Environment. Its key databaseConnectionString, if set, is
	// DATABASE_URL instead of the generated connection string. Each key with the prefix "apiKeys." becomes an
	// environment variable with the rest of the key as its name.
	//
	// +optional
	SecretRef *EnvironmentSecret `json:"secretRef,omitempty"`
}

// DatabaseComponent is a PostgreSQL database with one replica. It is recreated when it changes, never updated by a
// rolling update.
type DatabaseComponent struct {
	// container is the container of the component.
	//
	// +required
	Container EnvironmentContainer `json:"container"`

	// databaseName is the name of the database that is created at the first start: POSTGRES_DB. Defaults to the image's
	// default.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	DatabaseName string `json:"databaseName,omitempty"`

	// username is the name of the superuser: POSTGRES_USER. Defaults to postgres.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Username string `json:"username,omitempty"`

	// secretRef is a Secret in the namespace of the Environment whose key databasePassword is the password. If unset,
	// or without that key, a password is generated at the first start.
	//
	// +optional
	SecretRef *EnvironmentSecret `json:"secretRef,omitempty"`

	// persistentStorage keeps the data in a volume of the size of resources.disk when the database is stopped. If
	// false, the data is deleted with the pod.
	//
	// +optional
	PersistentStorage bool `json:"persistentStorage,omitempty"`

	// storagePath is the path of the data in the container, or the hostPath of the volume of the container that has the
	// data. Defaults to /var/lib/postgresql/data.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == '' || self.startsWith('/') && self.size() > 1 && !self.contains(':')",message="storagePath must be an absolute path without ':'"
	// +optional
	StoragePath string `json:"storagePath,omitempty"`
}

// AdditionalService is an additional component.
type AdditionalService struct {
	// name is the host name of the component within the environment: a DNS label of at most 52 characters that is not
	// frontend, backend or database.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=52
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && !(self in ['frontend', 'backend', 'database'])",message="name must be lower-case letters, digits and '-' that begin with a letter and end with a letter or digit, and not frontend, backend or database"
	// +required
	Name string `json:"name"`

	// container is the container of the component.
	//
	// +required
	Container EnvironmentContainer `json:"container"`

	// replicas is the number of replicas, from 0 to 1000. Defaults to 1.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// autoscaling changes the number of replicas with the usage. replicas is then the number at the start. Defaults to
	// none.
	//
	// +optional
	Autoscaling *EnvironmentAutoscaling `json:"autoscaling,omitempty"`
}

// EnvironmentSecret identifies a Secret in the namespace of the Environment.
type EnvironmentSecret struct {
	// name is the name of the Secret.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// EnvironmentNetwork specifies which clients can connect to an environment.
type EnvironmentNetwork struct {
	// name is the requested name of the network. It is informational, like subnet and gateway: all environments share
	// the network of the cluster, and the condition NetworkConfigured reports that the request is not met.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`

	// subnet is the requested subnet. It is informational.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Subnet string `json:"subnet,omitempty"`

	// gateway is the requested gateway. It is informational.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Gateway string `json:"gateway,omitempty"`

	// isolated allows traffic only from the environment's own pods and, on the ports of the frontend, from outside of
	// the other environments of the cluster. The network plugin of the cluster must enforce NetworkPolicies.
	//
	// +optional
	Isolated bool `json:"isolated,omitempty"`

	// exposure specifies how the ports of the environment are exposed outside of the cluster: LoadBalancer, NodePort,
	// HostPort or None. None is always allowed, others only by the controller's configuration. Defaults to the
	// controller's configuration.
	//
	// +optional
	Exposure EnvironmentExposure `json:"exposure,omitempty"`

	// egress restricts the connections that the pods of the environment open. Defaults to no restriction. The network
	// plugin of the cluster must enforce NetworkPolicies.
	//
	// +optional
	Egress *EnvironmentEgress `json:"egress,omitempty"`
}

// EnvironmentExposure specifies how ports are exposed outside of the cluster.
//
// +kubebuilder:validation:Enum=LoadBalancer;NodePort;HostPort;None
type EnvironmentExposure string

const (
	// ExposureLoadBalancer creates a Service of that type with the port.
	ExposureLoadBalancer EnvironmentExposure = "LoadBalancer"
	// ExposureNodePort creates a Service of that type with the port of all nodes.
	ExposureNodePort EnvironmentExposure = "NodePort"
	// ExposureHostPort uses the port of the pod's node.
	ExposureHostPort EnvironmentExposure = "HostPort"
	// ExposureNone keeps ports within the cluster. They are allocated all the same.
	ExposureNone EnvironmentExposure = "None"
)

// EnvironmentExposures are all of them.
var EnvironmentExposures = []EnvironmentExposure{ExposureLoadBalancer, ExposureNodePort, ExposureHostPort, ExposureNone}

// EnvironmentEgress restricts the connections that the pods of an environment open to the environment itself, the DNS
// server of the cluster, and the given networks.
type EnvironmentEgress struct {
	// networks are the networks outside of the environment to which its pods may connect, as CIDRs without host bits, at
	// most 64. Defaults to none.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self) && cidr(self).masked() == cidr(self)",message="networks must be CIDRs without host bits, such as 10.0.0.0/8"
	// +listType=set
	// +optional
	Networks []string `json:"networks,omitempty"`
}

// EnvironmentPlacement specifies the nodes on which an environment runs.
type EnvironmentPlacement struct {
	// spotPercent is the percentage of the replicas of each component that run on spot nodes, from 0 to 100. Defaults
	// to the controller's configuration.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	SpotPercent *int32 `json:"spotPercent,omitempty"`

	// minOnDemand is the number of replicas of each component that stay on on-demand nodes, from 0 to 1000. Defaults to
	// 1.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MinOnDemand *int32 `json:"minOnDemand,omitempty"`

	// databaseOnSpot allows the database to run on spot nodes, like the other components. Defaults to false, which
	// keeps it on on-demand nodes.
	//
	// +optional
	DatabaseOnSpot bool `json:"databaseOnSpot,omitempty"`

	// colocation specifies whether the components prefer the same zone: None or SameZone. With SameZone, they prefer the
	// zone of the database or, in an environment without a database, the zone of the pods that run already. Pods run in
	// other zones if that zone has no capacity. Defaults to None.
	//
	// +optional
	Colocation EnvironmentColocation `json:"colocation,omitempty"`

	// preferredZone is the zone that the components prefer: a value of the node label topology.kubernetes.io/zone. With
	// colocation SameZone and a database, it is the zone that the database prefers, and the others follow it. Defaults to
	// none.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="preferredZone must be the value of a label",messageExpression=`"preferredZone must be the value of a label, not '" + self + "'"`
	// +optional
	PreferredZone string `json:"preferredZone,omitempty"`
}

// EnvironmentColocation specifies whether the components of an environment prefer the same zone.
//
// +kubebuilder:validation:Enum=None;SameZone
type EnvironmentColocation string

const (
	// ColocationNone leaves the zones to the scheduler.
	ColocationNone EnvironmentColocation = "None"
	// ColocationSameZone prefers the zone of the database.
	ColocationSameZone EnvironmentColocation = "SameZone"
)

// Environment is a whole application, started and stopped as one.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=environments,scope=Namespaced,shortName=env,categories=berth
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Stack",type=string,JSONPath=`.spec.stack.name`,description="Name of the stack"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.stack.version`,description="Version of the stack"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`,description="State in one word"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`,description="Ready components and all components"
// +kubebuilder:printcolumn:name="Namespace-Used",type=string,JSONPath=`.status.namespace`,priority=1,description="Namespace of the pods"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1,description="Description of the state"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",fieldPath=".metadata",message="metadata.name must be a DNS label of at most 52 characters"
type Environment struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines the application.
	//
	// +required
	Spec EnvironmentSpec `json:"spec"`

	// status is the most recently observed status of the environment.
	//
	// +optional
	Status EnvironmentStatus `json:"status,omitempty"`
}

// EnvironmentList is a list of Environment objects.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type EnvironmentList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	//
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items is the list of Environment objects.
	//
	// +required
	Items []Environment `json:"items"`
}

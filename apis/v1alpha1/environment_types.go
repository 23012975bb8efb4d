// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EnvironmentSpec is a whole application: a database, a backend, a frontend and whatever else it needs, started in order.
//
// +kubebuilder:validation:XValidation:rule="has(self.stack.frontend) || has(self.stack.backend) || has(self.stack.database) || has(self.stack.additionalServices) && size(self.stack.additionalServices) > 0",message="stack must have a component: frontend, backend, database or one of additionalServices",fieldPath=".stack"
type EnvironmentSpec struct {
	// displayName is the name that people gave it. Two environments of a namespace cannot have the same one when they are
	// made by the gRPC service. Absent means the object's name.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// description says to people what it is for.
	//
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Description string `json:"description,omitempty"`

	// labels are the client's own, by which it lists environments, at most 64. They are no labels of Kubernetes, and may be
	// any text.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Labels map[string]AttributeValue `json:"labels,omitempty"`

	// runPolicy says whether it runs. A stopped environment keeps its volumes, ports and Services. Default: Running.
	//
	// +kubebuilder:default=Running
	// +optional
	RunPolicy RunPolicy `json:"runPolicy,omitempty"`

	// forceStop ends containers at once, without the time that they otherwise have. Only with runPolicy Stopped.
	//
	// +optional
	ForceStop bool `json:"forceStop,omitempty"`

	// restartedAt is when a restart was last requested. All components are replaced stage by stage whenever it changes.
	//
	// +optional
	RestartedAt *metav1.Time `json:"restartedAt,omitempty"`

	// stack is what runs.
	//
	// +required
	Stack ApplicationStack `json:"stack"`

	// network says who may talk to it.
	//
	// +optional
	Network *EnvironmentNetwork `json:"network,omitempty"`

	// placement says on which nodes it runs. Absent means what the controller's configuration says.
	//
	// +optional
	Placement *EnvironmentPlacement `json:"placement,omitempty"`

	// volumeRetention says what becomes of the volumes when the environment is deleted. Default: Delete.
	//
	// +kubebuilder:default=Delete
	// +optional
	VolumeRetention VolumeRetention `json:"volumeRetention,omitempty"`
}

// RunPolicy says whether an environment runs.
//
// +kubebuilder:validation:Enum=Running;Stopped
type RunPolicy string

const (
	// RunPolicyRunning has all components run.
	RunPolicyRunning RunPolicy = "Running"
	// RunPolicyStopped has none run.
	RunPolicyStopped RunPolicy = "Stopped"
)

// VolumeRetention says what becomes of volumes.
//
// +kubebuilder:validation:Enum=Delete;Retain
type VolumeRetention string

const (
	// VolumeRetentionDelete deletes the volumes with the environment.
	VolumeRetentionDelete VolumeRetention = "Delete"
	// VolumeRetentionRetain keeps the claims of the volumes, and their namespace.
	VolumeRetentionRetain VolumeRetention = "Retain"
)

// ApplicationStack is what an environment runs. It is started in the order database, additional services, backend,
// frontend, each when the one before is ready, and stopped in reverse.
type ApplicationStack struct {
	// name names the stack.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`

	// version is the stack's version, any text.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Version string `json:"version,omitempty"`

	// frontend is what users talk to. It answers within the environment as "frontend".
	//
	// +optional
	Frontend *FrontendComponent `json:"frontend,omitempty"`

	// backend is what the frontend talks to. It answers within the environment as "backend".
	//
	// +optional
	Backend *BackendComponent `json:"backend,omitempty"`

	// database is a PostgreSQL database. It answers within the environment as "database".
	//
	// +optional
	Database *DatabaseComponent `json:"database,omitempty"`

	// additionalServices are further components, at most 32. Each answers within the environment by its name.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	// +optional
	AdditionalServices []AdditionalService `json:"additionalServices,omitempty"`
}

// FrontendComponent is what users talk to.
type FrontendComponent struct {
	// container is what runs.
	//
	// +required
	Container EnvironmentContainer `json:"container"`

	// replicas is how many there are. Default: 1.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// domains are the host names under which it is reached from outside, at most 32. An Ingress is made of them,
	// or HTTPRoutes where the controller has a Gateway for them.
	//
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Domains []string `json:"domains,omitempty"`

	// tlsEnabled serves them over TLS: by an Ingress with the certificate of the Secret frontend-tls, by a Gateway at its listener
	// for TLS alone.
	//
	// +optional
	TLSEnabled bool `json:"tlsEnabled,omitempty"`
}

// BackendComponent is what the frontend talks to. It has DATABASE_URL in its environment, if there is a database.
type BackendComponent struct {
	// container is what runs.
	//
	// +required
	Container EnvironmentContainer `json:"container"`

	// replicas is how many there are. Default: 1.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// secretRef names a Secret of the Environment's namespace. Its key databaseConnectionString is DATABASE_URL, in place of
	// the one that is made of the database; each key that begins with "apiKeys." is a variable of the rest of its name.
	//
	// +optional
	SecretRef *EnvironmentSecret `json:"secretRef,omitempty"`
}

// DatabaseComponent is a PostgreSQL database of one replica. It is restarted, never rolled.
type DatabaseComponent struct {
	// container is what runs.
	//
	// +required
	Container EnvironmentContainer `json:"container"`

	// databaseName is the database that is made at the first start: POSTGRES_DB. Absent means the image's default.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	DatabaseName string `json:"databaseName,omitempty"`

	// username is who may do everything in it: POSTGRES_USER. Absent means postgres.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Username string `json:"username,omitempty"`

	// secretRef names a Secret of the Environment's namespace whose key databasePassword is the password. Absent, or without
	// that key, one is made up at the first start.
	//
	// +optional
	SecretRef *EnvironmentSecret `json:"secretRef,omitempty"`

	// persistentStorage keeps the data when the database is stopped, in a volume of the size that resources.disk says.
	// Without it the data goes with the pod.
	//
	// +optional
	PersistentStorage bool `json:"persistentStorage,omitempty"`

	// storagePath is where the data is in the container. Default: /var/lib/postgresql/data.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == '' || self.startsWith('/') && self.size() > 1 && !self.contains(':')",message="storagePath must be an absolute path without ':'"
	// +optional
	StoragePath string `json:"storagePath,omitempty"`
}

// AdditionalService is a further component.
type AdditionalService struct {
	// name is the name under which it answers within the environment: a DNS label of at most 52 characters that is not
	// frontend, backend or database.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=52
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && !(self in ['frontend', 'backend', 'database'])",message="name must be lower-case letters, digits and '-' that begin with a letter and end with a letter or digit, and not frontend, backend or database"
	// +required
	Name string `json:"name"`

	// container is what runs.
	//
	// +required
	Container EnvironmentContainer `json:"container"`

	// replicas is how many there are. Default: 1.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
}

// EnvironmentSecret names a Secret of the Environment's own namespace.
type EnvironmentSecret struct {
	// name is the Secret's name.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// EnvironmentNetwork says who may talk to an environment.
type EnvironmentNetwork struct {
	// name is kept and shown, as subnet and gateway are. The cluster has one network, in which an environment cannot choose its
	// addresses: the condition NetworkConfigured reports it.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`

	// subnet is kept and shown.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Subnet string `json:"subnet,omitempty"`

	// gateway is kept and shown.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Gateway string `json:"gateway,omitempty"`

	// isolated lets no one in but the environment's own pods and, on the frontend's ports, who comes from outside of the
	// cluster's other environments. The cluster's network must enforce NetworkPolicies.
	//
	// +optional
	Isolated bool `json:"isolated,omitempty"`
}

// EnvironmentPlacement says on which nodes an environment runs.
type EnvironmentPlacement struct {
	// spotPercent is the share of the replicas of each component that runs on spot nodes, from 0 to 100 percent. Default: what
	// the controller's configuration says.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	SpotPercent *int32 `json:"spotPercent,omitempty"`

	// minOnDemand is how many replicas of each component stay on on-demand nodes. Default: 1.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MinOnDemand *int32 `json:"minOnDemand,omitempty"`

	// databaseOnSpot lets the database run on spot nodes as the rest does. Default: false, which keeps it on on-demand nodes.
	//
	// +optional
	DatabaseOnSpot bool `json:"databaseOnSpot,omitempty"`
}

// Environment is a whole application, started and stopped as one.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=environments,scope=Namespaced,shortName=env,categories=berth
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Stack",type=string,JSONPath=`.spec.stack.name`,description="The stack that runs"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.stack.version`,description="Its version"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`,description="Where it stands"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`,description="Components that are ready, of all"
// +kubebuilder:printcolumn:name="Namespace-Used",type=string,JSONPath=`.status.namespace`,priority=1,description="The namespace that its pods run in"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1,description="The same in words"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS label of at most 52 characters"
type Environment struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what runs.
	//
	// +required
	Spec EnvironmentSpec `json:"spec"`

	// status is what the controller last saw.
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

	// items are the objects of the list.
	//
	// +required
	Items []Environment `json:"items"`
}

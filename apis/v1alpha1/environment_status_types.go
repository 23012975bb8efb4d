// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EnvironmentPhase is where an environment stands, in one word.
//
// +kubebuilder:validation:Enum=Pending;Creating;Running;Updating;Stopping;Stopped;Failed;Deleting
type EnvironmentPhase string

const (
	// EnvironmentPending means that nothing was made yet.
	EnvironmentPending EnvironmentPhase = "Pending"
	// EnvironmentCreating means that it is being started.
	EnvironmentCreating EnvironmentPhase = "Creating"
	// EnvironmentRunning means that every component was ready at once since it was last started or changed.
	EnvironmentRunning EnvironmentPhase = "Running"
	// EnvironmentUpdating means that a component is being replaced.
	EnvironmentUpdating EnvironmentPhase = "Updating"
	// EnvironmentStopping means that components are being stopped.
	EnvironmentStopping EnvironmentPhase = "Stopping"
	// EnvironmentStopped means that no component runs.
	EnvironmentStopped EnvironmentPhase = "Stopped"
	// EnvironmentFailed means that it cannot be run as configured, or did not start in time.
	EnvironmentFailed EnvironmentPhase = "Failed"
	// EnvironmentDeleting means that its objects are being removed.
	EnvironmentDeleting EnvironmentPhase = "Deleting"
)

// EnvironmentStatus is what the controller last saw.
type EnvironmentStatus struct {
	// observedGeneration is the generation of the spec that the status is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Degraded, NetworkConfigured, VolumesProvisioned and PortsAllocated.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// phase is the environment's state in one word.
	//
	// +optional
	Phase EnvironmentPhase `json:"phase,omitempty"`

	// message says the same to people.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// namespace is the namespace that its pods run in. It stays what it was at the start.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// ready is the number of components that are ready, of all: 3/4.
	//
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Ready string `json:"ready,omitempty"`

	// openStages is how many stages, from the first, have been ready since the last start. The one after them is being
	// started; while the environment is stopped, it is the number of stages that still run.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4
	// +optional
	OpenStages int32 `json:"openStages,omitempty"`

	// components are the components in the order in which they are started, at most 35.
	//
	// +kubebuilder:validation:MaxItems=35
	// +listType=map
	// +listMapKey=name
	// +optional
	Components []EnvironmentComponentStatus `json:"components,omitempty"`

	// ports are the ports that were allocated, at most 1120.
	//
	// +kubebuilder:validation:MaxItems=1120
	// +listType=atomic
	// +optional
	Ports []AllocatedPort `json:"ports,omitempty"`

	// startedAt is when it was last asked to start, or changed, or restarted. It bounds how long a start may take.
	//
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// updatedAt is when its spec was last changed.
	//
	// +optional
	UpdatedAt *metav1.Time `json:"updatedAt,omitempty"`

	// revision is the number of the spec in its history.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	// +optional
	Revision int64 `json:"revision,omitempty"`
}

// EnvironmentComponentStatus is how a component stands.
type EnvironmentComponentStatus struct {
	// name is frontend, backend, database or that of an additional service.
	//
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// stage is when it is started: 1 the database, 2 additional services, 3 the backend, 4 the frontend.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4
	// +optional
	Stage int32 `json:"stage,omitempty"`

	// replicas is how many there should be.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// readyReplicas is how many are ready.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// restarts is how often its containers were started again.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Restarts int32 `json:"restarts,omitempty"`

	// ready says whether it is as configured.
	//
	// +optional
	Ready bool `json:"ready,omitempty"`

	// reason is why it is not, in one word.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Reason string `json:"reason,omitempty"`

	// message says it to people.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// AllocatedPort is a port from outside that leads to a component.
type AllocatedPort struct {
	// component is the component's name.
	//
	// +kubebuilder:validation:MaxLength=63
	// +required
	Component string `json:"component"`

	// containerPort is the port in the container.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +required
	ContainerPort int32 `json:"containerPort"`

	// hostPort is the port from outside.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +required
	HostPort int32 `json:"hostPort"`

	// protocol is TCP or UDP.
	//
	// +required
	Protocol EnvironmentProtocol `json:"protocol"`
}

// Conditions of an Environment, in addition ConditionDegraded.
const (
	// ConditionReady is True while every component is ready.
	ConditionReady = "Ready"
	// ConditionNetworkConfigured is False where the cluster cannot give the network that was requested.
	ConditionNetworkConfigured = "NetworkConfigured"
	// ConditionVolumesProvisioned is False where a directory of the node was requested and is not allowed.
	ConditionVolumesProvisioned = "VolumesProvisioned"
	// ConditionPortsAllocated is False while a port that was requested belongs to another environment.
	ConditionPortsAllocated = "PortsAllocated"
	// ConditionRoutesAccepted is False while the Gateway does not route the domains to the frontend, and where a domain is not
	// allowed. It is absent where there are no domains, and where an Ingress has all of them, which has no such status.
	ConditionRoutesAccepted = "RoutesAccepted"
)

// Labels and annotations of Environments and of what is made for them.
const (
	// EnvironmentLabel on an object is the id of the Environment that it was made for.
	EnvironmentLabel = AnnotationPrefix + "/environment"
	// EnvironmentNamespaceLabel on an object is the namespace of that Environment.
	EnvironmentNamespaceLabel = AnnotationPrefix + "/environment-namespace"
	// EnvironmentComponentLabel on an object is the name of the component that it belongs to.
	EnvironmentComponentLabel = AnnotationPrefix + "/environment-component"
	// RestartedAtAnnotation on a pod template is the restart that it belongs to.
	RestartedAtAnnotation = AnnotationPrefix + "/restarted-at"
	// ChangesAnnotation on a ControllerRevision of an Environment names what changed since the one before, a line each.
	ChangesAnnotation = AnnotationPrefix + "/changes"
	// RetainedLabel is on what stays when its Environment is gone, because of its volumes: on its namespace, or on each object
	// in one that it shared.
	RetainedLabel = AnnotationPrefix + "/retained"
	// ActorAnnotation on an Environment is who last changed it, by the gRPC service or kubectl berth.
	ActorAnnotation = AnnotationPrefix + "/actor"
	// UpdatedAtAnnotation on an Environment is the generation that the gRPC service last made of it, and when:
	// 3/2006-01-02T15:04:05Z. It is finer than the times of Kubernetes, and there before the controller has seen the change.
	UpdatedAtAnnotation = AnnotationPrefix + "/updated-at"
	// EnvironmentFinalizer keeps an Environment until what was made for it is gone.
	EnvironmentFinalizer = AnnotationPrefix + "/environment"
	// StageGate is the scheduling gate of pods whose stage is not open yet. No pod of an open stage has it.
	StageGate = AnnotationPrefix + "/stage"
)

// Reasons of conditions of Environments.
const (
	// ReasonDomainNotAllowed: the controller's configuration does not allow a domain for the namespace of the Environment.
	ReasonDomainNotAllowed = "DomainNotAllowed"
	// ReasonSecretNotAllowed: a Secret that the spec names belongs to another Environment.
	ReasonSecretNotAllowed = "SecretNotAllowed"
	// ReasonPortTaken: a port belongs to another environment.
	ReasonPortTaken = "PortTaken"
	// ReasonNoPorts: no port is left to be allocated.
	ReasonNoPorts = "NoPorts"
	// ReasonNoSecret: a Secret that the spec names does not exist.
	ReasonNoSecret = "NoSecret"
	// ReasonCleanedUp: the environment did not start, and its objects were removed.
	ReasonCleanedUp = "CleanedUp"
	// ReasonAllocated is the reason of PortsAllocated=True.
	ReasonAllocated = "Allocated"
	// ReasonHostPathNotAllowed: the controller's configuration does not allow a directory of the node.
	ReasonHostPathNotAllowed = "HostPathNotAllowed"
	// ReasonNotApplied: no HTTPRoute has the domains, because the environment is refused as a whole.
	ReasonNotApplied = "NotApplied"
)

// Keys of the Secret of an Environment's components.
const (
	// DatabasePasswordKey is the key of the database's password.
	DatabasePasswordKey = "databasePassword"
	// DatabaseConnectionKey is the key of the connection string that was given.
	DatabaseConnectionKey = "databaseConnectionString"
	// APIKeyPrefix begins the keys of the backend's API keys.
	APIKeyPrefix = "apiKeys."
)

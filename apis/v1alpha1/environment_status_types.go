// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EnvironmentPhase is a one-word summary of the state of an environment.
//
// +kubebuilder:validation:Enum=Pending;Creating;Running;Updating;Stopping;Stopped;Failed;Deleting
type EnvironmentPhase string

const (
	// EnvironmentPending means that nothing has been created yet.
	EnvironmentPending EnvironmentPhase = "Pending"
	// EnvironmentCreating means that the components are starting.
	EnvironmentCreating EnvironmentPhase = "Creating"
	// EnvironmentRunning means that, since the last start or change, every component was ready at the same time.
	EnvironmentRunning EnvironmentPhase = "Running"
	// EnvironmentUpdating means that a component is being replaced.
	EnvironmentUpdating EnvironmentPhase = "Updating"
	// EnvironmentStopping means that components are being stopped.
	EnvironmentStopping EnvironmentPhase = "Stopping"
	// EnvironmentStopped means that no component runs.
	EnvironmentStopped EnvironmentPhase = "Stopped"
	// EnvironmentFailed means that the environment cannot run as configured, or did not start in time.
	EnvironmentFailed EnvironmentPhase = "Failed"
	// EnvironmentDeleting means that the objects of the environment are being deleted.
	EnvironmentDeleting EnvironmentPhase = "Deleting"
)

// EnvironmentStatus is the most recently observed status of an Environment.
type EnvironmentStatus struct {
	// observedGeneration is the metadata.generation that this status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the latest observations of the environment: Ready, Degraded, NetworkConfigured,
	// VolumesProvisioned, PortsAllocated, RoutesAccepted and AutoscalingActive.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// phase is a one-word summary of the state.
	//
	// +optional
	Phase EnvironmentPhase `json:"phase,omitempty"`

	// message is a human-readable description of the state.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// namespace is the namespace in which the pods run. It does not change after the first start.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// ready is the number of ready components and of all components: 3/4.
	//
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Ready string `json:"ready,omitempty"`

	// openStages is the number of stages, from the first, that have been ready since the last start. The next stage is
	// starting. While the environment is stopped, it is the number of stages that still run.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4
	// +optional
	OpenStages int32 `json:"openStages,omitempty"`

	// components is the list of components in the order in which they start, at most 35.
	//
	// +kubebuilder:validation:MaxItems=35
	// +listType=map
	// +listMapKey=name
	// +optional
	Components []EnvironmentComponentStatus `json:"components,omitempty"`

	// ports is the list of allocated ports, at most 1120.
	//
	// +kubebuilder:validation:MaxItems=1120
	// +listType=atomic
	// +optional
	Ports []AllocatedPort `json:"ports,omitempty"`

	// startedAt is when the environment was last started, changed or restarted. The time limit of a start is counted
	// from it.
	//
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// updatedAt is when the spec last changed.
	//
	// +optional
	UpdatedAt *metav1.Time `json:"updatedAt,omitempty"`

	// revision is the revision number of the spec in its history.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	// +optional
	Revision int64 `json:"revision,omitempty"`
}

// EnvironmentComponentStatus is the observed status of a component.
type EnvironmentComponentStatus struct {
	// name is frontend, backend, database or the name of an additional service.
	//
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// stage is the stage in which the component starts: 1 is the database, 2 additional services, 3 the backend, 4 the
	// frontend.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4
	// +optional
	Stage int32 `json:"stage,omitempty"`

	// replicas is the desired number of replicas.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// readyReplicas is the number of ready replicas.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// restarts is the number of times that the containers were restarted.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Restarts int32 `json:"restarts,omitempty"`

	// ready is true if the component is in its desired state.
	//
	// +optional
	Ready bool `json:"ready,omitempty"`

	// reason is a machine-readable reason in CamelCase why the component is not ready.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Reason string `json:"reason,omitempty"`

	// message is a human-readable description of the reason.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// AllocatedPort is a port outside of the cluster that leads to a component.
type AllocatedPort struct {
	// component is the name of the component.
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

	// hostPort is the port outside of the cluster.
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

// Conditions of an Environment, in addition to ConditionDegraded.
const (
	// ConditionReady is True while every component is ready.
	ConditionReady = "Ready"
	// ConditionAutoscalingActive is False if an autoscaler of a component cannot compute replicas, for example because the
	// cluster serves no metrics. It exists if a component has autoscaling.
	ConditionAutoscalingActive = "AutoscalingActive"
	// ConditionNetworkConfigured is False if the cluster cannot provide the requested network.
	ConditionNetworkConfigured = "NetworkConfigured"
	// ConditionVolumesProvisioned is False if a directory of the node was requested and is not allowed.
	ConditionVolumesProvisioned = "VolumesProvisioned"
	// ConditionPortsAllocated is False while a requested port belongs to another environment.
	ConditionPortsAllocated = "PortsAllocated"
	// ConditionRoutesAccepted is False while the Gateway does not route the domains to the frontend, and where a domain is not
	// allowed. It is absent where there are no domains, and where an Ingress has all of them, which has no such status.
	ConditionRoutesAccepted = "RoutesAccepted"
)

// Labels and annotations of Environments and of the objects that are created for them.
const (
	// EnvironmentLabel is on the objects of an Environment: the ID of the Environment.
	EnvironmentLabel = AnnotationPrefix + "/environment"
	// EnvironmentNamespaceLabel is on the objects of an Environment: the namespace of the Environment.
	EnvironmentNamespaceLabel = AnnotationPrefix + "/environment-namespace"
	// EnvironmentComponentLabel is on the objects of a component: the name of the component.
	EnvironmentComponentLabel = AnnotationPrefix + "/environment-component"
	// RestartedAtAnnotation on a pod template is the time of the restart that replaced its pods.
	RestartedAtAnnotation = AnnotationPrefix + "/restarted-at"
	// ChangesAnnotation on a ControllerRevision of an Environment lists the changes since the previous revision, one
	// per line.
	ChangesAnnotation = AnnotationPrefix + "/changes"
	// ClientAnnotation on a ControllerRevision of an Environment is the field manager of the client that changed the spec.
	ClientAnnotation = AnnotationPrefix + "/client"
	// RetainedLabel is on what is kept for its volumes when an Environment is deleted: its namespace, or each kept
	// object if the namespace is shared.
	RetainedLabel = AnnotationPrefix + "/retained"
	// ActorAnnotation on an Environment is the user who last changed its spec: of any client with the policy
	// berth-environment-actor, otherwise of the gRPC service and kubectl berth.
	ActorAnnotation = AnnotationPrefix + "/actor"
	// ActorGenerationAnnotation on an Environment is the generation that was made by the user of ActorAnnotation. Only the
	// policy berth-environment-actor writes it.
	ActorGenerationAnnotation = AnnotationPrefix + "/actor-generation"
	// CredentialsAnnotation on a Secret is the id of the Environment whose credentials the gRPC service stores in it.
	CredentialsAnnotation = AnnotationPrefix + "/credentials-of"
	// UpdatedAtAnnotation on an Environment is the last generation that the gRPC service wrote, and its time:
	// 3/2006-01-02T15:04:05Z. It is more precise than the times of Kubernetes, and is set before the controller
	// observes the change.
	UpdatedAtAnnotation = AnnotationPrefix + "/updated-at"
	// EnvironmentFinalizer prevents the deletion of an Environment until its objects are deleted.
	EnvironmentFinalizer = AnnotationPrefix + "/environment"
	// StageGate is the scheduling gate of pods whose stage has not started. The controller removes it when the stage
	// starts.
	StageGate = AnnotationPrefix + "/stage"
)

// Reasons of conditions of Environments.
const (
	// ReasonDomainNotAllowed: the controller's configuration does not allow a domain in the namespace of the
	// Environment.
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
	// ReasonIsolated is the reason of NetworkConfigured=True when NetworkPolicies isolate the environment.
	ReasonIsolated = "Isolated"
	// ReasonNotApplicable is the reason of NetworkConfigured=False.
	ReasonNotApplicable = "NotApplicable"
	// ReasonNotApplied: no HTTPRoute has the domains, because the environment is refused as a whole.
	ReasonNotApplied = "NotApplied"
)

// Keys of the Secret of an Environment's components.
const (
	// DatabasePasswordKey is the key of the database's password.
	DatabasePasswordKey = "databasePassword"
	// DatabaseConnectionKey is the key of the connection string that the user set.
	DatabaseConnectionKey = "databaseConnectionString"
	// APIKeyPrefix is the prefix of the keys of the backend's API keys.
	APIKeyPrefix = "apiKeys."
)

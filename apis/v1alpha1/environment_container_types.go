// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// EnvironmentContainer is the container of a component.
type EnvironmentContainer struct {
	// name is the name that the client gave it. It is kept and shown; the component's own name is the one that counts.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`

	// image is the container image.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +required
	Image string `json:"image"`

	// command is run in place of the image's own, at most 64 words.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	// +optional
	Command []string `json:"command,omitempty"`

	// args are the arguments of the command, at most 256.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	// +optional
	Args []string `json:"args,omitempty"`

	// ports are the ports that it serves on, at most 32.
	//
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, b.containerPort == a.containerPort && b.protocol == a.protocol))",message="ports must not have the same containerPort and protocol twice"
	// +listType=atomic
	// +optional
	Ports []EnvironmentPort `json:"ports,omitempty"`

	// volumes are its volumes, at most 16.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, b.mountPath == a.mountPath))",message="volumes must not have the same mountPath twice"
	// +listType=atomic
	// +optional
	Volumes []EnvironmentVolume `json:"volumes,omitempty"`

	// env are its environment variables, at most 128. Names are those of C: letters, digits and '_'.
	//
	// +kubebuilder:validation:MaxProperties=128
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 253 && k.matches('^[-._a-zA-Z][-._a-zA-Z0-9]*$'))",message="env must have names of letters, digits, '_', '-' and '.' that do not begin with a digit"
	// +optional
	Env map[string]ConfigValue `json:"env,omitempty"`

	// resources bound what it uses.
	//
	// +optional
	Resources *EnvironmentResources `json:"resources,omitempty"`

	// healthCheck says whether it is well.
	//
	// +optional
	HealthCheck *EnvironmentHealthCheck `json:"healthCheck,omitempty"`

	// restartPolicy says what happens when it ends. Default: Always.
	//
	// +optional
	RestartPolicy EnvironmentRestartPolicy `json:"restartPolicy,omitempty"`
}

// EnvironmentRestartPolicy says what happens when a container ends.
//
// +kubebuilder:validation:Enum=No;Always;OnFailure;UnlessStopped
type EnvironmentRestartPolicy string

const (
	// RestartNo leaves it ended: the component is a Job that is not tried again.
	RestartNo EnvironmentRestartPolicy = "No"
	// RestartAlways starts it again.
	RestartAlways EnvironmentRestartPolicy = "Always"
	// RestartOnFailure starts it again if it failed: the component is a Job.
	RestartOnFailure EnvironmentRestartPolicy = "OnFailure"
	// RestartUnlessStopped starts it again until the environment is stopped.
	RestartUnlessStopped EnvironmentRestartPolicy = "UnlessStopped"
)

// EnvironmentPort is a port that a container serves on.
type EnvironmentPort struct {
	// containerPort is the port in the container, and that of the component's name within the environment.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +required
	ContainerPort int32 `json:"containerPort"`

	// hostPort is the port from outside of the cluster. 0 or absent has one allocated: status.ports.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +optional
	HostPort int32 `json:"hostPort,omitempty"`

	// protocol is TCP or UDP. Default: TCP.
	//
	// +kubebuilder:default=TCP
	// +optional
	Protocol EnvironmentProtocol `json:"protocol,omitempty"`
}

// EnvironmentProtocol is the protocol of a port.
//
// +kubebuilder:validation:Enum=TCP;UDP
type EnvironmentProtocol string

const (
	// ProtocolTCP is TCP.
	ProtocolTCP EnvironmentProtocol = "TCP"
	// ProtocolUDP is UDP.
	ProtocolUDP EnvironmentProtocol = "UDP"
)

// EnvironmentVolume is a volume of a container. It is a claim that outlives the pod, unless the controller's configuration
// lets hostPath be one of the node's directories.
type EnvironmentVolume struct {
	// name names the volume within the component. Absent has it named by its place.
	//
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name must be lower-case letters, digits and '-' that begin and end with a letter or digit"
	// +optional
	Name string `json:"name,omitempty"`

	// mountPath is where the container sees it.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/') && self.size() > 1 && !self.contains(':')",message="mountPath must be an absolute path without ':'",messageExpression=`"mountPath must be an absolute path without ':', not '" + self + "'"`
	// +required
	MountPath string `json:"mountPath"`

	// hostPath is the node's directory that the client requested. Where the configuration does not allow it, the volume is a
	// claim, and the condition VolumesProvisioned reports it.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	HostPath string `json:"hostPath,omitempty"`

	// readOnly mounts it so.
	//
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
}

// EnvironmentResources are what a container requests, and the most that it may use.
type EnvironmentResources struct {
	// cpu is in cores: 500m, 2.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`cpu must be a quantity above 0`,messageExpression=`"cpu must be a quantity above 0, such as 500m or 2, not '" + self + "'"`
	// +optional
	CPU string `json:"cpu,omitempty"`

	// memory is in bytes: 512Mi, 2Gi.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`memory must be a quantity above 0`,messageExpression=`"memory must be a quantity above 0, such as 512Mi or 2Gi, not '" + self + "'"`
	// +optional
	Memory string `json:"memory,omitempty"`

	// disk is in bytes: 10Gi. For a database that keeps its data it is the size of its volume, otherwise the node's own
	// storage that the container may use.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`disk must be a quantity above 0`,messageExpression=`"disk must be a quantity above 0, such as 512Mi or 10Gi, not '" + self + "'"`
	// +optional
	Disk string `json:"disk,omitempty"`
}

// EnvironmentHealthCheck is a command that tells by its exit code whether a container is well.
type EnvironmentHealthCheck struct {
	// command is run in the container, at most 64 words. A first word of CMD, as Docker has it, is left out; CMD-SHELL runs
	// the second one in /bin/sh; NONE checks nothing.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	// +required
	Command []string `json:"command"`

	// intervalSeconds is the time between two runs. Default: 30.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	IntervalSeconds int32 `json:"intervalSeconds,omitempty"`

	// timeoutSeconds is what a run may take. Default: 5.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// retries is how many runs must fail one after the other for the container to be started again. Default: 3.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Retries int32 `json:"retries,omitempty"`

	// startPeriodSeconds is how long after its start failures do not count. Default: 0.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	StartPeriodSeconds int32 `json:"startPeriodSeconds,omitempty"`
}

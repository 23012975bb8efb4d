// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import corev1 "k8s.io/api/core/v1"

// EnvironmentContainer is the container of a component.
type EnvironmentContainer struct {
	// name is the name that the client chose for the container. It is informational: the container has the name of its
	// component.
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

	// command is the entrypoint of the container, at most 64 words. Defaults to the entrypoint of the image.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	// +optional
	Command []string `json:"command,omitempty"`

	// args are the arguments of the entrypoint, at most 256.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	// +optional
	Args []string `json:"args,omitempty"`

	// ports are the ports that the container serves, at most 32.
	//
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, b.containerPort == a.containerPort && b.protocol == a.protocol))",message="ports must not have the same containerPort and protocol twice"
	// +listType=atomic
	// +optional
	Ports []EnvironmentPort `json:"ports,omitempty"`

	// volumes are the volumes of the container, at most 16.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, b.mountPath == a.mountPath))",message="volumes must not have the same mountPath twice"
	// +listType=atomic
	// +optional
	Volumes []EnvironmentVolume `json:"volumes,omitempty"`

	// env are the environment variables of the container, at most 128. Names have letters, digits, '_', '-' and '.',
	// and do not begin with a digit.
	//
	// +kubebuilder:validation:MaxProperties=128
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 253 && k.matches('^[-._a-zA-Z][-._a-zA-Z0-9]*$'))",message="env must have names of letters, digits, '_', '-' and '.' that do not begin with a digit"
	// +optional
	Env map[string]ConfigValue `json:"env,omitempty"`

	// resources defines the resource requests and limits of the container.
	//
	// +optional
	Resources *EnvironmentResources `json:"resources,omitempty"`

	// healthCheck defines how the health of the container is checked.
	//
	// +optional
	HealthCheck *EnvironmentHealthCheck `json:"healthCheck,omitempty"`

	// terminationGracePeriodSeconds is the time between the signal to stop and the end of the container, in seconds from 0
	// to 86400. Defaults to 30.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`

	// securityContext specifies the user and the privileges of the container. Defaults to the user of the image, without
	// privilege escalation.
	//
	// +optional
	SecurityContext *EnvironmentSecurityContext `json:"securityContext,omitempty"`

	// restartPolicy specifies what happens when the container exits: No, Always, OnFailure or UnlessStopped. Defaults
	// to Always.
	//
	// +optional
	RestartPolicy EnvironmentRestartPolicy `json:"restartPolicy,omitempty"`
}

// EnvironmentRestartPolicy specifies what happens when a container exits.
//
// +kubebuilder:validation:Enum=No;Always;OnFailure;UnlessStopped
type EnvironmentRestartPolicy string

const (
	// RestartNo does not restart the container: the component is a Job without retries.
	RestartNo EnvironmentRestartPolicy = "No"
	// RestartAlways restarts the container.
	RestartAlways EnvironmentRestartPolicy = "Always"
	// RestartOnFailure restarts the container if it failed: the component is a Job.
	RestartOnFailure EnvironmentRestartPolicy = "OnFailure"
	// RestartUnlessStopped restarts the container until the environment is stopped.
	RestartUnlessStopped EnvironmentRestartPolicy = "UnlessStopped"
)

// EnvironmentPort is a port that a container serves.
type EnvironmentPort struct {
	// containerPort is the port in the container, which is also the port of the component's host name within the
	// environment.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +required
	ContainerPort int32 `json:"containerPort"`

	// hostPort is the port outside of the cluster. If 0 or unset, a port is allocated and reported in status.ports.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +optional
	HostPort int32 `json:"hostPort,omitempty"`

	// protocol is TCP or UDP. Defaults to TCP.
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

// EnvironmentVolume is a volume of a container: a PersistentVolumeClaim that outlives the pod, an empty directory that
// does not, or, if the controller's configuration allows it, the hostPath of the node.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.ephemeral) && self.ephemeral && has(self.hostPath) && self.hostPath.size() > 0)",message="ephemeral must be false with hostPath",fieldPath=".ephemeral"
type EnvironmentVolume struct {
	// name is the name of the volume within the component. If unset, it is derived from the position of the volume in
	// the list.
	//
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name must be lower-case letters, digits and '-' that begin and end with a letter or digit"
	// +optional
	Name string `json:"name,omitempty"`

	// mountPath is the path within the container at which the volume is mounted.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/') && self.size() > 1 && !self.contains(':')",message="mountPath must be an absolute path without ':'",messageExpression=`"mountPath must be an absolute path without ':', not '" + self + "'"`
	// +required
	MountPath string `json:"mountPath"`

	// hostPath is the requested directory of the node. If the controller's configuration does not allow it, the volume
	// is a PersistentVolumeClaim, or is not mounted if it is readOnly, and the condition VolumesProvisioned reports it.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	HostPath string `json:"hostPath,omitempty"`

	// ephemeral makes the volume an empty directory that is deleted with the pod. Defaults to false.
	//
	// +optional
	Ephemeral bool `json:"ephemeral,omitempty"`

	// readOnly mounts the volume read-only.
	//
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
}

// EnvironmentResources defines the resource requests and limits of a container.
type EnvironmentResources struct {
	// cpu is the CPU request and limit, in cores: 500m, 2.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`!self.matches('[eE].{4}') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`cpu must be a quantity above 0`,messageExpression=`"cpu must be a quantity above 0, such as 500m or 2, not '" + self + "'"`
	// +kubebuilder:validation:XValidation:rule=`self.matches('[eE].{4}') || !isQuantity(self) || quantity(self).compareTo(quantity('1M')) <= 0`,message=`cpu must be at most 1M`
	// +optional
	CPU string `json:"cpu,omitempty"`

	// memory is the memory request and limit, in bytes: 512Mi, 2Gi.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`!self.matches('[eE].{4}') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`memory must be a quantity above 0`,messageExpression=`"memory must be a quantity above 0, such as 512Mi or 2Gi, not '" + self + "'"`
	// +kubebuilder:validation:XValidation:rule=`self.matches('[eE].{4}') || !isQuantity(self) || quantity(self).compareTo(quantity('1Pi')) <= 0`,message=`memory must be at most 1Pi`
	// +optional
	Memory string `json:"memory,omitempty"`

	// disk is the storage, in bytes: 10Gi. For a database with persistentStorage it is the size of the volume,
	// otherwise the request and limit of the node's ephemeral storage.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`!self.matches('[eE].{4}') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`disk must be a quantity above 0`,messageExpression=`"disk must be a quantity above 0, such as 512Mi or 10Gi, not '" + self + "'"`
	// +kubebuilder:validation:XValidation:rule=`self.matches('[eE].{4}') || !isQuantity(self) || quantity(self).compareTo(quantity('1Pi')) <= 0`,message=`disk must be at most 1Pi`
	// +optional
	Disk string `json:"disk,omitempty"`
}

// EnvironmentHealthCheck checks the health of a container: by the exit code of a command, the status of an HTTP response
// (200 to 399), a TCP connection, or the gRPC health service.
//
// +kubebuilder:validation:XValidation:rule="[has(self.command), has(self.httpGet), has(self.tcpSocket), has(self.grpc)].exists_one(c, c)",message="healthCheck must have exactly one of command, httpGet, tcpSocket and grpc"
type EnvironmentHealthCheck struct {
	// command is the command that runs in the container, at most 64 words. As in Docker, a first word CMD is omitted,
	// CMD-SHELL runs the second word in /bin/sh, and NONE disables the check.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	// +optional
	Command []string `json:"command,omitempty"`

	// httpGet defines the HTTP request that the kubelet sends to the pod.
	//
	// +optional
	HTTPGet *EnvironmentHTTPGet `json:"httpGet,omitempty"`

	// tcpSocket defines the port of the pod that the kubelet connects to.
	//
	// +optional
	TCPSocket *EnvironmentTCPSocket `json:"tcpSocket,omitempty"`

	// grpc defines the gRPC health service (grpc.health.v1) that the kubelet calls.
	//
	// +optional
	GRPC *EnvironmentGRPCCheck `json:"grpc,omitempty"`

	// intervalSeconds is the time between two runs, in seconds, at most 86400. 0 or unset means 30.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	IntervalSeconds int32 `json:"intervalSeconds,omitempty"`

	// timeoutSeconds is the time after which a run fails, in seconds, at most 86400. 0 or unset means 5.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// retries is the number of consecutive failed runs after which the container is restarted, at most 1000. 0 or unset
	// means 3.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Retries int32 `json:"retries,omitempty"`

	// startPeriodSeconds is the time after the start of the container in which failures are ignored, in seconds, at
	// most 86400. Defaults to 0.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	StartPeriodSeconds int32 `json:"startPeriodSeconds,omitempty"`
}

// EnvironmentHTTPGet is an HTTP request to a container. Its host is that of the pod.
type EnvironmentHTTPGet struct {
	// path is the path of the request, with its query, at most 1024 characters. Defaults to /.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="path must begin with '/'"
	// +kubebuilder:default="/"
	// +optional
	Path string `json:"path,omitempty"`

	// port is the port of the container, from 1 to 65535.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +required
	Port int32 `json:"port"`

	// scheme is HTTP or HTTPS, whose certificate is not verified. Defaults to HTTP.
	//
	// +kubebuilder:validation:Enum=HTTP;HTTPS
	// +kubebuilder:default=HTTP
	// +optional
	Scheme corev1.URIScheme `json:"scheme,omitempty"`
}

// EnvironmentTCPSocket is a port of a container.
type EnvironmentTCPSocket struct {
	// port is the port of the container, from 1 to 65535.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +required
	Port int32 `json:"port"`
}

// EnvironmentGRPCCheck is a service of a gRPC server that serves grpc.health.v1 without TLS.
type EnvironmentGRPCCheck struct {
	// port is the port of the container, from 1 to 65535.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +required
	Port int32 `json:"port"`

	// service is the name of the service in the health request, at most 253 characters. Defaults to that of the server.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Service string `json:"service,omitempty"`
}

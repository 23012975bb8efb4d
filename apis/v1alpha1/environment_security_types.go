// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// EnvironmentSecurityContext specifies the user and the privileges of a container. The fields have the meaning of those
// of the same name in the security context of pods. A container never gains privileges, and always drops the capability
// NET_RAW.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.runAsNonRoot) && self.runAsNonRoot && has(self.runAsUser) && self.runAsUser == 0)",message="runAsUser must not be 0 with runAsNonRoot",fieldPath=".runAsUser"
type EnvironmentSecurityContext struct {
	// runAsUser is the user ID of the processes of the container, from 0 to 2147483647. Defaults to the user of the
	// image.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	RunAsUser *int64 `json:"runAsUser,omitempty"`

	// runAsGroup is the primary group ID of the processes, from 0 to 2147483647. Defaults to the group of the image.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	RunAsGroup *int64 `json:"runAsGroup,omitempty"`

	// fsGroup is the group ID that owns the volumes, from 0 to 2147483647. A user other than root often needs it to write
	// to a volume. Defaults to none, which leaves the owner of the files unchanged.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	FSGroup *int64 `json:"fsGroup,omitempty"`

	// runAsNonRoot rejects the container if it would run as root. Defaults to the controller's configuration, which
	// false does not override.
	//
	// +optional
	RunAsNonRoot bool `json:"runAsNonRoot,omitempty"`

	// readOnlyRootFilesystem mounts the file system of the image read-only. Volumes stay writable; use volumes with
	// ephemeral for paths such as /tmp. Defaults to false.
	//
	// +optional
	ReadOnlyRootFilesystem bool `json:"readOnlyRootFilesystem,omitempty"`

	// capabilities are the Linux capabilities of the container. Defaults to those of the container runtime without
	// NET_RAW.
	//
	// +optional
	Capabilities *EnvironmentCapabilities `json:"capabilities,omitempty"`

	// seccompProfile is the seccomp profile of the container. Defaults to the type RuntimeDefault.
	//
	// +optional
	SeccompProfile *EnvironmentSeccompProfile `json:"seccompProfile,omitempty"`
}

// EnvironmentCapabilities are the Linux capabilities of a container.
type EnvironmentCapabilities struct {
	// add are the capabilities that the container gets after drop: those that the Pod Security Standard baseline allows.
	//
	// +kubebuilder:validation:MaxItems=13
	// +listType=set
	// +optional
	Add []EnvironmentCapability `json:"add,omitempty"`

	// drop are the capabilities that the container loses, at most 64: names without the prefix CAP_, such as MKNOD, or
	// ALL. NET_RAW is always dropped.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=32
	// +kubebuilder:validation:items:Pattern=`^[A-Z][A-Z_]*$`
	// +listType=set
	// +optional
	Drop []string `json:"drop,omitempty"`
}

// EnvironmentCapability is a Linux capability that the Pod Security Standard baseline allows.
//
// +kubebuilder:validation:Enum=AUDIT_WRITE;CHOWN;DAC_OVERRIDE;FOWNER;FSETID;KILL;MKNOD;NET_BIND_SERVICE;SETFCAP;SETGID;SETPCAP;SETUID;SYS_CHROOT
type EnvironmentCapability string

// EnvironmentSeccompProfile is a seccomp profile.
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'Localhost') == (has(self.localhostProfile) && self.localhostProfile.size() > 0)",message="localhostProfile must be set with the type Localhost, and only with it",fieldPath=".localhostProfile"
type EnvironmentSeccompProfile struct {
	// type is RuntimeDefault, the profile of the container runtime, or Localhost, a profile in a file of the node.
	//
	// +required
	Type EnvironmentSeccompType `json:"type"`

	// localhostProfile is the path of the file relative to the seccomp directory of the kubelet, with the type Localhost.
	//
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(p, p == '..')",message="localhostProfile must be a relative path without '..'"
	// +optional
	LocalhostProfile string `json:"localhostProfile,omitempty"`
}

// EnvironmentSeccompType is the type of a seccomp profile.
//
// +kubebuilder:validation:Enum=RuntimeDefault;Localhost
type EnvironmentSeccompType string

const (
	// SeccompRuntimeDefault is the profile of the container runtime.
	SeccompRuntimeDefault EnvironmentSeccompType = "RuntimeDefault"
	// SeccompLocalhost is a profile in a file of the node.
	SeccompLocalhost EnvironmentSeccompType = "Localhost"
)

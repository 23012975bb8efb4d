// SPDX-License-Identifier: Apache-2.0

package controller

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// APIVersion is the apiVersion of a configuration file.
	APIVersion = "config.berth.dev/v1alpha1"

	// Kind is the kind of a configuration file.
	Kind = "ControllerConfiguration"

	// Disabled as a bindAddress keeps that server from being started.
	Disabled = "0"
)

// No field has omitempty: false and 0 are not the default everywhere, and a configuration that is written out must be
// the same when it is read again.

// Configuration is what berth-controller is told by its file. What the file does not say has its default.
//
// +kubebuilder:object:root=true
type Configuration struct {
	metav1.TypeMeta `json:",inline"`

	// schedulerConfig is the path of the KubeSchedulerConfiguration that berth-scheduler runs with: the scheduler names and
	// the node rules are taken from it. Default: empty, which means the defaults of the scheduler's plugin.
	//
	// +optional
	SchedulerConfig string `json:"schedulerConfig"`

	// namespaces are the only ones whose workloads are reconciled. What runs in others is still read, because it takes
	// room on the nodes. Default: empty, which means all.
	//
	// +optional
	// +listType=set
	Namespaces []string `json:"namespaces"`

	// controllers are the controllers that run: mix, limits, records and environments. "*" stands for those that run by
	// default, mix and limits; "name" adds one, "-name" removes one. records needs manifests/rbac/records, and environments
	// manifests/environments. Default: "*".
	//
	// +optional
	// +listType=set
	Controllers []string `json:"controllers"`

	// resyncSeconds is how often every workload is looked at although nothing changed, from 5 to 3600 seconds. Default: 30.
	//
	// +optional
	ResyncSeconds int32 `json:"resyncSeconds"`

	// dryRun decides and reports as ever, but evicts no pod and repairs no annotation. Default: false.
	//
	// +optional
	DryRun bool `json:"dryRun"`

	// leaderElection keeps all replicas but one standing by.
	//
	// +optional
	LeaderElection LeaderElection `json:"leaderElection"`

	// metrics says where /metrics is served.
	//
	// +optional
	Metrics Metrics `json:"metrics"`

	// health says where /healthz and /readyz are served.
	//
	// +optional
	Health Health `json:"health"`

	// clientConnection is how the API server is reached.
	//
	// +optional
	ClientConnection ClientConnection `json:"clientConnection"`

	// mix is how CapacityMixes are kept.
	//
	// +optional
	Mix Mix `json:"mix"`

	// limits is how pods find their ResourceLimit.
	//
	// +optional
	Limits Limits `json:"limits"`

	// webhook is the admission webhook that fills pods in.
	//
	// +optional
	Webhook Webhook `json:"webhook"`

	// services says where gRPC and REST are served.
	//
	// +optional
	Services Services `json:"services"`

	// records is how DeploymentRecords are rendered, measured and scaled.
	//
	// +optional
	Records Records `json:"records"`

	// environments is how Environments are run.
	//
	// +optional
	Environments Environments `json:"environments"`
}

// LeaderElection is how replicas agree on the one that acts.
type LeaderElection struct {
	// enabled requests it. Without it there must be one replica only. Default: true.
	//
	// +optional
	Enabled bool `json:"enabled"`

	// namespace is where the lease is. Default: empty, which means the namespace that the controller runs in, or
	// berth-system outside of a cluster.
	//
	// +optional
	Namespace string `json:"namespace"`

	// name is the name of the lease. Default: empty, which means berth-controller where the controller mix runs, and else
	// berth- and the names of the controllers that run, such as berth-environments.
	//
	// +optional
	Name string `json:"name"`

	// leaseDurationSeconds is how long a leader that is not heard of keeps the lease, from 2 to 600 seconds. Default: 15.
	//
	// +optional
	LeaseDurationSeconds int32 `json:"leaseDurationSeconds"`

	// renewDeadlineSeconds is how long a leader that cannot renew the lease goes on, less than leaseDurationSeconds and at
	// least 1 second. Default: 10.
	//
	// +optional
	RenewDeadlineSeconds int32 `json:"renewDeadlineSeconds"`

	// retryPeriodSeconds is the time between two attempts to take or renew the lease, at least 1 second. 1.2 times of it
	// must be less than renewDeadlineSeconds. Default: 2.
	//
	// +optional
	RetryPeriodSeconds int32 `json:"retryPeriodSeconds"`
}

// Metrics is where /metrics is served, and to whom.
type Metrics struct {
	// bindAddress is host:port, or "0" for no such server. Default: ":8443".
	//
	// +optional
	BindAddress string `json:"bindAddress"`

	// secure serves over TLS, and only to those who may get /metrics by the cluster's RBAC. Default: true.
	//
	// +optional
	Secure bool `json:"secure"`

	// certDirectory is the directory with tls.crt and tls.key, which are read again when they change. Only with secure.
	// Default: empty, which means a self-signed certificate.
	//
	// +optional
	CertDirectory string `json:"certDirectory"`
}

// Health is where the probes of a kubelet are answered.
type Health struct {
	// bindAddress is host:port, or "0" for no such server. Default: ":8081".
	//
	// +optional
	BindAddress string `json:"bindAddress"`
}

// ClientConnection is how the API server is reached.
type ClientConnection struct {
	// kubeconfig is the path of a kubeconfig. Default: empty, which means the service account of the pod or, outside of a
	// cluster, what kubectl would take.
	//
	// +optional
	Kubeconfig string `json:"kubeconfig"`

	// qps is the number of requests in a second that are sustained, from 1 to 10000. Default: 300.
	//
	// +optional
	QPS int32 `json:"qps"`

	// burst is the number of requests that may be sent at once, from qps to 20000. Default: 600.
	//
	// +optional
	Burst int32 `json:"burst"`
}

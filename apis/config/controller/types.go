// SPDX-License-Identifier: Apache-2.0

package controller

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// APIVersion is the apiVersion of a configuration file.
	APIVersion = "config.berth.dev/v1alpha1"

	// Kind is the kind of a configuration file.
	Kind = "ControllerConfiguration"

	// Disabled as a bindAddress disables the server.
	Disabled = "0"
)

// No field has omitempty: the defaults of some fields are not false or 0, and a configuration that is written must be
// the same when it is read again.

// Configuration is the configuration file of berth-controller. Fields that are not set have their defaults.
//
// +kubebuilder:object:root=true
type Configuration struct {
	metav1.TypeMeta `json:",inline"`

	// schedulerConfig is the path of the KubeSchedulerConfiguration of berth-scheduler, from which the scheduler names
	// and the node rules are read. Defaults to empty, which means the defaults of the scheduler's plugin.
	//
	// +optional
	SchedulerConfig string `json:"schedulerConfig"`

	// schedulerFeatureGates are the feature gates that berth-scheduler runs with (--feature-gates), by name. The controller
	// proves capacity with them, and the webhook adds tolerations with the operators Gt and Lt only if
	// TaintTolerationComparisonOperators is on. Defaults to empty, which means the defaults of Kubernetes.
	//
	// +optional
	SchedulerFeatureGates map[string]bool `json:"schedulerFeatureGates"`

	// namespaces are the namespaces whose workloads are reconciled. Pods in other namespaces are still observed,
	// because they use capacity of the nodes. Defaults to empty, which means all.
	//
	// +optional
	// +listType=set
	Namespaces []string `json:"namespaces"`

	// controllers are the controllers that run: mix, limits, policies, records and environments. "*" selects those that
	// run by default, mix, limits and policies. "name" adds one, "-name" removes one. manifests/records and
	// manifests/environments run records and environments as Deployments of their own. An empty list serves only the
	// services. Defaults to "*".
	//
	// +optional
	// +listType=set
	Controllers []string `json:"controllers"`

	// resyncSeconds is the time after which every workload is reconciled even if nothing changed, in seconds from 5 to
	// 3600. Defaults to 30.
	//
	// +optional
	ResyncSeconds int32 `json:"resyncSeconds"`

	// dryRun decides and reports as usual, but evicts no pod and repairs no annotation. Defaults to false.
	//
	// +optional
	DryRun bool `json:"dryRun"`

	// leaderElection configures the election of the active replica.
	//
	// +optional
	LeaderElection LeaderElection `json:"leaderElection"`

	// metrics configures the server of /metrics.
	//
	// +optional
	Metrics Metrics `json:"metrics"`

	// health configures the server of /healthz and /readyz.
	//
	// +optional
	Health Health `json:"health"`

	// clientConnection configures the connection to the API server.
	//
	// +optional
	ClientConnection ClientConnection `json:"clientConnection"`

	// mix configures the controller of CapacityMixes.
	//
	// +optional
	Mix Mix `json:"mix"`

	// limits configures how the ResourceLimits of pods are found.
	//
	// +optional
	Limits Limits `json:"limits"`

	// webhook configures the admission webhook of pods.
	//
	// +optional
	Webhook Webhook `json:"webhook"`

	// services configures the gRPC and REST services.
	//
	// +optional
	Services Services `json:"services"`

	// console configures berth-console.
	//
	// +optional
	Console Console `json:"console"`

	// records configures how DeploymentRecords are rendered, measured and scaled.
	//
	// +optional
	Records Records `json:"records"`

	// environments configures the controller of Environments.
	//
	// +optional
	Environments Environments `json:"environments"`
}

// LeaderElection configures the election of the active replica.
type LeaderElection struct {
	// enabled enables leader election. If false, there must be only one replica. Defaults to true.
	//
	// +optional
	Enabled bool `json:"enabled"`

	// namespace is the namespace of the lease. Defaults to empty, which means the namespace of the controller, or
	// berth-system outside of a cluster.
	//
	// +optional
	Namespace string `json:"namespace"`

	// name is the name of the lease. Defaults to empty, which means berth-controller if the controller mix runs,
	// otherwise berth- and the names of the controllers that run, such as berth-environments.
	//
	// +optional
	Name string `json:"name"`

	// leaseDurationSeconds is the time after which the lease of a leader that does not renew it expires, in seconds
	// from 2 to 600. Defaults to 15.
	//
	// +optional
	LeaseDurationSeconds int32 `json:"leaseDurationSeconds"`

	// renewDeadlineSeconds is the time after which a leader that cannot renew the lease stops, in seconds from 1, below
	// leaseDurationSeconds. Defaults to 10.
	//
	// +optional
	RenewDeadlineSeconds int32 `json:"renewDeadlineSeconds"`

	// retryPeriodSeconds is the time between two attempts to acquire or renew the lease, in seconds from 1. 1.2 times
	// of it must be below renewDeadlineSeconds. Defaults to 2.
	//
	// +optional
	RetryPeriodSeconds int32 `json:"retryPeriodSeconds"`
}

// Metrics configures the server of /metrics.
type Metrics struct {
	// bindAddress is the host:port of the server, or "0" to disable it. Defaults to ":8443".
	//
	// +optional
	BindAddress string `json:"bindAddress"`

	// secure serves over TLS, and only to users whom RBAC allows to get /metrics. Defaults to true.
	//
	// +optional
	Secure bool `json:"secure"`

	// certDirectory is the directory of tls.crt and tls.key, which are reloaded when they change. It may be set only
	// with secure. Defaults to empty, which means a self-signed certificate.
	//
	// +optional
	CertDirectory string `json:"certDirectory"`
}

// Health configures the server of the kubelet's probes.
type Health struct {
	// bindAddress is the host:port of the server, or "0" to disable it. Defaults to ":8081".
	//
	// +optional
	BindAddress string `json:"bindAddress"`
}

// ClientConnection configures the connection to the API server.
type ClientConnection struct {
	// kubeconfig is the path of a kubeconfig. Defaults to empty, which means the service account of the pod or, outside
	// of a cluster, the kubeconfig that kubectl uses.
	//
	// +optional
	Kubeconfig string `json:"kubeconfig"`

	// qps is the maximum number of requests per second, from 1 to 10000. Defaults to 300.
	//
	// +optional
	QPS int32 `json:"qps"`

	// burst is the maximum number of requests in a burst, from qps to 20000. Defaults to 600.
	//
	// +optional
	Burst int32 `json:"burst"`
}

// SPDX-License-Identifier: Apache-2.0

package controller

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

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

	// namespaces are the only ones whose workloads are looked after. What runs in others is still read, because it takes
	// room on the nodes. Default: empty, which means all.
	//
	// +optional
	// +listType=set
	Namespaces []string `json:"namespaces"`

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

	// rebalance says how replicas on the wrong capacity type are brought back.
	//
	// +optional
	Rebalance Rebalance `json:"rebalance"`

	// annotationRepairsPerMinute is how many pods may have a stale slot annotation mended in a minute, from 0 to 6000.
	// 0 mends none. Default: 60.
	//
	// +optional
	AnnotationRepairsPerMinute int32 `json:"annotationRepairsPerMinute"`

	// gates is what happens to pods whose scheduling gate nobody opens.
	//
	// +optional
	Gates Gates `json:"gates"`

	// resourceLimits is how pods find their ResourceLimit.
	//
	// +optional
	ResourceLimits ResourceLimits `json:"resourceLimits"`

	// webhook is the admission webhook that fills pods in.
	//
	// +optional
	Webhook Webhook `json:"webhook"`

	// services says where gRPC and REST are served.
	//
	// +optional
	Services Services `json:"services"`

	// deployments is how DeploymentRecords are rendered, and what is done for them.
	//
	// +optional
	Deployments Deployments `json:"deployments"`

	// environments is how Environments are run.
	//
	// +optional
	Environments Environments `json:"environments"`
}

// LeaderElection is how replicas agree on the one that acts.
type LeaderElection struct {
	// enabled asks for it. Without it there must be one replica only. Default: true.
	//
	// +optional
	Enabled bool `json:"enabled"`

	// namespace is where the lease is. Default: empty, which means the namespace that the controller runs in, or
	// berth-system outside of a cluster.
	//
	// +optional
	Namespace string `json:"namespace"`

	// name is the name of the lease. Default: berth-controller.
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

// Rebalance is how replicas on the wrong capacity type are brought back. The first four fields are for the mixes that do
// not say it themselves.
type Rebalance struct {
	// mode is Evict, Report (decide and say so, evict nothing) or Off, for mixes that do not say. Default: Evict.
	//
	// +optional
	Mode v1alpha1.RebalanceMode `json:"mode"`

	// maxConcurrent is how many replicas of one mix may be on the move at a time, from 1 to 100, for mixes that do not say.
	// Default: 1.
	//
	// +optional
	MaxConcurrent int32 `json:"maxConcurrent"`

	// stabilizationSeconds is how long a workload must have been out of its mix before a replica is moved, from 0 to 86400
	// seconds, for mixes that do not say. Default: 60.
	//
	// +optional
	StabilizationSeconds int32 `json:"stabilizationSeconds"`

	// provisioning is Wait (move a replica only to nodes that are there) or Placeholder (ask an autoscaler for the room
	// first, by a placeholder pod), for mixes that do not say. Placeholder needs manifests/rbac/placeholders. Default: Wait.
	//
	// +optional
	Provisioning v1alpha1.Provisioning `json:"provisioning"`

	// placeholderImage is the image of placeholder pods, which has to run until it is stopped and nothing else. Default:
	// registry.k8s.io/pause:3.10.
	//
	// +optional
	PlaceholderImage string `json:"placeholderImage"`

	// clusterMaxConcurrent is how many replicas of the whole cluster may be on the move at a time, from 1 to 1000.
	// Default: 10.
	//
	// +optional
	ClusterMaxConcurrent int32 `json:"clusterMaxConcurrent"`

	// startupGraceSeconds is how long nothing is moved after this replica became the leader, or the API server came back,
	// from 0 to 3600 seconds. Default: 60.
	//
	// +optional
	StartupGraceSeconds int32 `json:"startupGraceSeconds"`

	// moveTimeoutSeconds is how long the replacement of an evicted replica may take to be Ready before the move counts as
	// failed, and how long a placeholder pod may take to run and its replica to be let go, from 1 to 86400 seconds.
	// Default: 600.
	//
	// +optional
	MoveTimeoutSeconds int32 `json:"moveTimeoutSeconds"`

	// backoffSeconds is how long a workload rests after a failed move, from 1 to 86400 seconds. It doubles with every
	// further failure. Default: 30.
	//
	// +optional
	BackoffSeconds int32 `json:"backoffSeconds"`

	// maxBackoffSeconds is where the doubling ends, from backoffSeconds to 604800 seconds. Default: 1800.
	//
	// +optional
	MaxBackoffSeconds int32 `json:"maxBackoffSeconds"`

	// storm says when spot capacity is being taken back on a large scale. Nothing is moved then.
	//
	// +optional
	Storm Storm `json:"storm"`
}

// Storm is when spot nodes go away in numbers: at least minNodes of them, and more than sharePercent of all spot nodes,
// within windowSeconds.
type Storm struct {
	// sharePercent is the share of the spot nodes that must be exceeded, from 1 to 100 percent; 100 means that nothing is a
	// storm. Default: 20.
	//
	// +optional
	SharePercent int32 `json:"sharePercent"`

	// minNodes is the number of spot nodes that must go, from 1 to 10000, so that a small cluster has no storm for each
	// of its nodes. Default: 2.
	//
	// +optional
	MinNodes int32 `json:"minNodes"`

	// windowSeconds is the time in which they must go, from 1 to 3600 seconds. Default: 60.
	//
	// +optional
	WindowSeconds int32 `json:"windowSeconds"`

	// quietSeconds is how long a storm lasts after the last spot node went, from 0 to 86400 seconds. Default: 120.
	//
	// +optional
	QuietSeconds int32 `json:"quietSeconds"`
}

// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Webhook is the admission webhook that fills new pods in with what their ResourceLimit and their mix say.
type Webhook struct {
	// enabled serves it, on every replica. Default: false.
	//
	// +optional
	Enabled bool `json:"enabled"`

	// bindAddress is host:port. A host that is no wildcard is one of the names of the certificate. Default: ":9443".
	//
	// +optional
	BindAddress string `json:"bindAddress"`

	// schedulerName is what pods get that name none or default-scheduler. Default: berth-scheduler; empty leaves pods to
	// the scheduler that they name.
	//
	// +optional
	SchedulerName string `json:"schedulerName"`

	// gates gives new pods that a mix governs the scheduling gate berth.dev/capacity-mix, so that every scheduler and
	// autoscaler sees the capacity type that they get. It needs a berth-scheduler that leads, and enabled. Pods that it
	// gates keep their scheduler, unless they have a ResourceLimit. Default: false.
	//
	// +optional
	Gates bool `json:"gates"`

	// namespace is where the Service and the Secret are. Default: empty, which means the namespace that the controller
	// runs in, or berth-system outside of a cluster.
	//
	// +optional
	Namespace string `json:"namespace"`

	// serviceName is the name of the Service by which the API server reaches the webhook. Default: berth-webhook.
	//
	// +optional
	ServiceName string `json:"serviceName"`

	// secretName is the name of the Secret that holds the certificates. Default: berth-webhook-certs.
	//
	// +optional
	SecretName string `json:"secretName"`

	// configurationName is the name of the MutatingWebhookConfiguration that the certificate authority is written to.
	// Default: berth-webhook.
	//
	// +optional
	ConfigurationName string `json:"configurationName"`

	// certDirectory is the directory with tls.crt and tls.key of another owner's, such as cert-manager's, which are read
	// again when they change. The Secret and the MutatingWebhookConfiguration are then left alone. Default: empty, which
	// means that the controller makes and renews the certificates.
	//
	// +optional
	CertDirectory string `json:"certDirectory"`
}

func defaultWebhook() Webhook {
	return Webhook{ //nolint:gosec // G101: names of objects, no credentials
		BindAddress: ":9443", SchedulerName: "berth-scheduler",
		ServiceName: "berth-webhook", SecretName: "berth-webhook-certs", ConfigurationName: "berth-webhook",
	}
}

func (w Webhook) validate(path *field.Path) field.ErrorList {
	all := validateBindAddress(path.Child("bindAddress"), w.BindAddress)
	if w.BindAddress == Disabled {
		all = append(all, field.Invalid(path.Child("bindAddress"), w.BindAddress, "must be host:port or :port; enabled turns the webhook off"))
	}
	if w.Gates && !w.Enabled {
		all = append(all, field.Invalid(path.Child("gates"), w.Gates, "has no effect without enabled"))
	}
	if w.SchedulerName != "" {
		all = append(all, named(path.Child("schedulerName"), w.SchedulerName, validation.IsDNS1123Subdomain)...)
	}
	if w.Namespace != "" {
		all = append(all, named(path.Child("namespace"), w.Namespace, validation.IsDNS1123Label)...)
	}
	all = append(all, named(path.Child("serviceName"), w.ServiceName, validation.IsDNS1035Label)...)
	all = append(all, named(path.Child("secretName"), w.SecretName, validation.IsDNS1123Subdomain)...)
	return append(all, named(path.Child("configurationName"), w.ConfigurationName, validation.IsDNS1123Subdomain)...)
}

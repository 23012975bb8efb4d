// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Webhook configures the admission webhook, which sets the fields of new pods that their ResourceLimit and their mix
// determine.
type Webhook struct {
	// enabled enables the webhook on every replica. Defaults to false.
	//
	// +optional
	Enabled bool `json:"enabled"`

	// bindAddress is the host:port of the webhook. A host that is not a wildcard is one of the names of the
	// certificate. Defaults to ":9443".
	//
	// +optional
	BindAddress string `json:"bindAddress"`

	// schedulerName is the schedulerName of pods that set none or default-scheduler. If empty, the webhook does not
	// change it. Defaults to berth-scheduler.
	//
	// +optional
	SchedulerName string `json:"schedulerName"`

	// gates adds the scheduling gate berth.dev/capacity-mix to new pods that a mix governs, so that every scheduler and
	// autoscaler observes their capacity type. It requires enabled, and a leading berth-scheduler. Gated pods keep
	// their schedulerName, unless they use a ResourceLimit. Defaults to false.
	//
	// +optional
	Gates bool `json:"gates"`

	// namespace is the namespace of the Service and the Secret. Defaults to empty, which means the namespace of the
	// controller, or berth-system outside of a cluster.
	//
	// +optional
	Namespace string `json:"namespace"`

	// serviceName is the name of the Service through which the API server calls the webhook. Defaults to berth-webhook.
	//
	// +optional
	ServiceName string `json:"serviceName"`

	// secretName is the name of the Secret with the certificates. Defaults to berth-webhook-certs.
	//
	// +optional
	SecretName string `json:"secretName"`

	// configurationName is the name of the MutatingWebhookConfiguration in which the controller sets the certificate
	// authority. Defaults to berth-webhook.
	//
	// +optional
	ConfigurationName string `json:"configurationName"`

	// certDirectory is the directory of tls.crt and tls.key that another component, such as cert-manager, manages. They
	// are reloaded when they change. The controller then changes neither the Secret nor the
	// MutatingWebhookConfiguration. Defaults to empty, which means that the controller creates and renews the
	// certificates.
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
		all = append(all, field.Invalid(path.Child("bindAddress"), w.BindAddress,
			"must be host:port or :port; to disable the webhook, set enabled to false"))
	}
	if w.Gates && !w.Enabled {
		all = append(all, field.Invalid(path.Child("gates"), w.Gates, "has no effect without enabled"))
	}
	all = append(all, namedIfSet(path.Child("schedulerName"), w.SchedulerName, validation.IsDNS1123Subdomain)...)
	all = append(all, namedIfSet(path.Child("namespace"), w.Namespace, validation.IsDNS1123Label)...)
	all = append(all, named(path.Child("serviceName"), w.ServiceName, validation.IsDNS1035Label)...)
	all = append(all, named(path.Child("secretName"), w.SecretName, validation.IsDNS1123Subdomain)...)
	return append(all, named(path.Child("configurationName"), w.ConfigurationName, validation.IsDNS1123Subdomain)...)
}

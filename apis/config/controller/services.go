// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"net"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Services configures the gRPC and REST services and the authentication of callers. Every replica serves them.
type Services struct {
	// bindAddress is the host:port on which gRPC and REST are served, or "0" to disable them. Defaults to "0".
	//
	// +optional
	BindAddress string `json:"bindAddress"`

	// extraBindAddresses are additional addresses, host:port, on which the same services are served. Defaults to none.
	//
	// +optional
	// +listType=set
	ExtraBindAddresses []string `json:"extraBindAddresses"`

	// insecure allows addresses other than loopback without TLS, where bearer tokens can be read by others on the
	// network. Loopback addresses are always allowed without TLS. Defaults to false.
	//
	// +optional
	Insecure bool `json:"insecure"`

	// certFile is the path of the server's certificate, PEM, which is reloaded when it changes. Defaults to empty,
	// which means no TLS.
	//
	// +optional
	CertFile string `json:"certFile"`

	// keyFile is the path of the certificate's key, PEM. Defaults to empty.
	//
	// +optional
	KeyFile string `json:"keyFile"`

	// clientCAFile is the path of the certificate authorities, PEM, of client certificates. As in the API server, their
	// common name is the user and their organizations are the groups. A holder of the authorities' keys can
	// authenticate as any user. Defaults to empty, which means that only bearer tokens are accepted.
	//
	// +optional
	ClientCAFile string `json:"clientCAFile"`

	// defaultTimeoutSeconds is the timeout of a call that sets no deadline, in seconds from 1 to maxTimeoutSeconds.
	// Defaults to 10.
	//
	// +optional
	DefaultTimeoutSeconds int32 `json:"defaultTimeoutSeconds"`

	// maxTimeoutSeconds is the maximum timeout of a call that is not streaming, in seconds from 1 to 3600. Defaults to
	// 60.
	//
	// +optional
	MaxTimeoutSeconds int32 `json:"maxTimeoutSeconds"`

	// maxStreamSeconds is the maximum and default timeout of a streaming call, in seconds from 1 to 86400. A stream of
	// logs authenticates and authorizes the caller again every minute. A stream of health, which requires no
	// authentication, ends after 600 seconds at the latest. Defaults to 3600.
	//
	// +optional
	MaxStreamSeconds int32 `json:"maxStreamSeconds"`

	// maxRequestBytes is the maximum size of a request, in bytes from 1024 to 16777216. Defaults to 1048576.
	//
	// +optional
	MaxRequestBytes int32 `json:"maxRequestBytes"`

	// tokenCacheSeconds is the time for which the API server's review of a bearer token is cached, in seconds from 1 to
	// 300. Each call is authorized. Defaults to 10.
	//
	// +optional
	TokenCacheSeconds int32 `json:"tokenCacheSeconds"`

	// requestLimits limits the connections and calls of callers.
	//
	// +optional
	RequestLimits RequestLimits `json:"requestLimits"`

	// grpcWeb configures whether browsers may call.
	//
	// +optional
	GRPCWeb GRPCWeb `json:"grpcWeb"`

	// limits configures the service of ResourceLimits.
	//
	// +optional
	Limits LimitsService `json:"limits"`

	// records configures the service of DeploymentRecords.
	//
	// +optional
	Records RecordsService `json:"records"`

	// environments configures the service of Environments. It is served by processes that run the controller
	// environments.
	//
	// +optional
	Environments EnvironmentsService `json:"environments"`
}

// EnvironmentsService configures the service of Environments.
type EnvironmentsService struct {
	// namespace is the namespace of gRPC calls that do not set the metadata berth-namespace. Defaults to "default".
	//
	// +optional
	Namespace string `json:"namespace"`

	// kubeletSummary reads the disk and network usage of containers from the kubelets. It requires the permission to
	// get nodes/proxy, which gives full access to nodes. Defaults to false.
	//
	// +optional
	KubeletSummary bool `json:"kubeletSummary"`
}

// RecordsService configures the service of DeploymentRecords.
type RecordsService struct {
	// namespace is the namespace of gRPC calls that do not set the metadata berth-namespace. Defaults to "default".
	//
	// +optional
	Namespace string `json:"namespace"`
}

// LimitsService configures the service of ResourceLimits.
type LimitsService struct {
	// namespace is the namespace of gRPC calls that do not set the metadata berth-namespace. REST has it in the path.
	// Defaults to "default".
	//
	// +optional
	Namespace string `json:"namespace"`
}

func defaultServices() Services {
	return Services{
		BindAddress:           Disabled,
		ExtraBindAddresses:    []string{},
		DefaultTimeoutSeconds: 10,
		MaxTimeoutSeconds:     60,
		MaxStreamSeconds:      3600,
		MaxRequestBytes:       1 << 20,
		TokenCacheSeconds:     10,
		RequestLimits:         defaultRequestLimits(),
		GRPCWeb:               GRPCWeb{AllowedOrigins: []string{}},
		Limits:                LimitsService{Namespace: "default"},
		Records:               RecordsService{Namespace: "default"},
		Environments:          EnvironmentsService{Namespace: "default"},
	}
}

// Enabled reports whether the services are served.
func (s *Services) Enabled() bool { return s.BindAddress != Disabled }

func (s *Services) validate(path *field.Path) field.ErrorList {
	all := validateBindAddress(path.Child("bindAddress"), s.BindAddress)
	all = append(all, s.validateAddresses(path)...)
	if (s.CertFile == "") != (s.KeyFile == "") {
		all = append(all, field.Required(path.Child("keyFile"), "certFile and keyFile must be set together"))
	}
	if s.ClientCAFile != "" && s.CertFile == "" {
		all = append(all, field.Forbidden(path.Child("clientCAFile"), "may be set only with certFile"))
	}
	maximum := inRange(path.Child("maxTimeoutSeconds"), s.MaxTimeoutSeconds, 1, 3600)
	if len(maximum) == 0 {
		all = append(all, inRange(path.Child("defaultTimeoutSeconds"), s.DefaultTimeoutSeconds, 1, s.MaxTimeoutSeconds)...)
	}
	all = append(all, maximum...)
	all = append(all, inRange(path.Child("maxStreamSeconds"), s.MaxStreamSeconds, 1, 86400)...)
	all = append(all, inRange(path.Child("maxRequestBytes"), s.MaxRequestBytes, 1<<10, 1<<24)...)
	all = append(all, inRange(path.Child("tokenCacheSeconds"), s.TokenCacheSeconds, 1, 300)...)
	all = append(all, s.RequestLimits.validate(path.Child("requestLimits"))...)
	all = append(all, s.GRPCWeb.validate(path.Child("grpcWeb"))...)
	all = append(all, named(path.Child("records", "namespace"), s.Records.Namespace, validation.IsDNS1123Label)...)
	all = append(all, named(path.Child("environments", "namespace"), s.Environments.Namespace, validation.IsDNS1123Label)...)
	return append(all, named(path.Child("limits", "namespace"), s.Limits.Namespace, validation.IsDNS1123Label)...)
}

// validateAddresses validates the additional addresses, and which addresses are reachable without TLS.
func (s *Services) validateAddresses(path *field.Path) field.ErrorList {
	var all field.ErrorList
	if s.Enabled() {
		all = validateReach(path.Child("bindAddress"), s.BindAddress, s.CertFile != "" || s.Insecure)
	}
	seen := map[string]bool{s.BindAddress: true}
	for i, address := range s.ExtraBindAddresses {
		path := path.Child("extraBindAddresses").Index(i)
		switch {
		case !s.Enabled():
			all = append(all, field.Forbidden(path, "may be set only with bindAddress"))
		case address == Disabled:
			all = append(all, field.Invalid(path, address, "must be host:port"))
		case seen[address]:
			all = append(all, field.Duplicate(path, address))
		default:
			all = append(all, validateBindAddress(path, address)...)
			all = append(all, validateReach(path, address, s.CertFile != "" || s.Insecure)...)
		}
		seen[address] = true
	}
	return all
}

// validateReach rejects addresses on which bearer tokens can be read by others on the network, unless that is allowed. A host name counts
// as reachable, whatever it currently resolves to.
func validateReach(path *field.Path, address string, allowed bool) field.ErrorList {
	host, _, err := net.SplitHostPort(address)
	if err != nil || allowed {
		return nil
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return field.ErrorList{field.Invalid(path, address,
		fmt.Sprintf("other hosts can reach it without TLS: set %s and %s, or %s", "certFile", "keyFile", "insecure: true"))}
}

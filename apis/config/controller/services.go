// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"net"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Services is where gRPC and REST are served, and how callers are told apart. Every replica serves them.
type Services struct {
	// bindAddress is host:port, or "0" for no such server. gRPC and REST share it. Default: "0".
	//
	// +optional
	BindAddress string `json:"bindAddress"`

	// extraBindAddresses are further addresses, host:port, that serve the same. Default: none.
	//
	// +optional
	// +listType=set
	ExtraBindAddresses []string `json:"extraBindAddresses"`

	// insecure allows to serve without TLS on addresses that others can reach. Bearer tokens are then readable on the way.
	// Loopback addresses may always be without. Default: false.
	//
	// +optional
	Insecure bool `json:"insecure"`

	// certFile is the path of the server's certificate, PEM, which is read again when it changes. Default: empty, which
	// means no TLS.
	//
	// +optional
	CertFile string `json:"certFile"`

	// keyFile is the path of the certificate's key, PEM. Default: empty.
	//
	// +optional
	KeyFile string `json:"keyFile"`

	// clientCAFile is the path of the certificate authorities, PEM, whose client certificates name a user (common name) and
	// its groups (organizations), as with the API server. Whoever holds their keys can be anybody. Default: empty, which
	// means that only bearer tokens count.
	//
	// +optional
	ClientCAFile string `json:"clientCAFile"`

	// defaultTimeoutSeconds is how long a call may take that does not say, from 1 to maxTimeoutSeconds. Default: 10.
	//
	// +optional
	DefaultTimeoutSeconds int32 `json:"defaultTimeoutSeconds"`

	// maxTimeoutSeconds is how long any call may take but a streaming one, from 1 to 3600 seconds. Default: 60.
	//
	// +optional
	MaxTimeoutSeconds int32 `json:"maxTimeoutSeconds"`

	// maxStreamSeconds is how long a streaming call may take, and takes that sets no deadline, from 1 to 86400 seconds. A
	// stream of logs checks the caller and their rights again every minute. A stream of health, which needs no
	// authentication, takes 600 seconds at most. Default: 3600.
	//
	// +optional
	MaxStreamSeconds int32 `json:"maxStreamSeconds"`

	// maxRequestBytes is how large a request may be, from 1024 to 16777216 bytes. Default: 1048576.
	//
	// +optional
	MaxRequestBytes int32 `json:"maxRequestBytes"`

	// tokenCacheSeconds is how long the API server's word on a bearer token counts, from 1 to 300 seconds. What the caller
	// may do is requested each time. Default: 10.
	//
	// +optional
	TokenCacheSeconds int32 `json:"tokenCacheSeconds"`

	// requestLimits bounds what callers hold at a time.
	//
	// +optional
	RequestLimits RequestLimits `json:"requestLimits"`

	// limits configures the service of ResourceLimits.
	//
	// +optional
	Limits LimitsService `json:"limits"`

	// records configures the service of DeploymentRecords.
	//
	// +optional
	Records RecordsService `json:"records"`

	// environments configures the service of Environments. It is served where the controller environments runs.
	//
	// +optional
	Environments EnvironmentsService `json:"environments"`
}

// EnvironmentsService configures the service of Environments.
type EnvironmentsService struct {
	// namespace is where a gRPC call finds Environments that does not name a namespace by the metadata berth-namespace.
	// Default: "default".
	//
	// +optional
	Namespace string `json:"namespace"`

	// kubeletSummary reads what containers have written to disk and sent from the kubelets. It needs the right to get
	// nodes/proxy, with which everything on a node can be done. Default: false.
	//
	// +optional
	KubeletSummary bool `json:"kubeletSummary"`
}

// RecordsService configures the service of DeploymentRecords.
type RecordsService struct {
	// namespace is where a gRPC call finds DeploymentRecords that does not name a namespace by the metadata
	// berth-namespace. Default: "default".
	//
	// +optional
	Namespace string `json:"namespace"`
}

// LimitsService configures the service of ResourceLimits.
type LimitsService struct {
	// namespace is where a gRPC call finds ResourceLimits that does not name a namespace by the metadata berth-namespace.
	// REST names it in the path. Default: "default".
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
		Limits:                LimitsService{Namespace: "default"},
		Records:               RecordsService{Namespace: "default"},
		Environments:          EnvironmentsService{Namespace: "default"},
	}
}

// Enabled says whether anything is served.
func (s *Services) Enabled() bool { return s.BindAddress != Disabled }

func (s *Services) validate(path *field.Path) field.ErrorList {
	all := validateBindAddress(path.Child("bindAddress"), s.BindAddress)
	all = append(all, s.validateAddresses(path)...)
	if (s.CertFile == "") != (s.KeyFile == "") {
		all = append(all, field.Required(path.Child("keyFile"), "certFile and keyFile go together"))
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
	all = append(all, named(path.Child("records", "namespace"), s.Records.Namespace, validation.IsDNS1123Label)...)
	all = append(all, named(path.Child("environments", "namespace"), s.Environments.Namespace, validation.IsDNS1123Label)...)
	return append(all, named(path.Child("limits", "namespace"), s.Limits.Namespace, validation.IsDNS1123Label)...)
}

// validateAddresses looks at the extra addresses, and at what is reachable without TLS.
func (s *Services) validateAddresses(path *field.Path) field.ErrorList {
	var all field.ErrorList
	if s.Enabled() {
		all = s.validateReach(path.Child("bindAddress"), s.BindAddress)
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
			all = append(all, s.validateReach(path, address)...)
		}
		seen[address] = true
	}
	return all
}

// validateReach refuses to show bearer tokens on a network. A name, whatever it resolves to now, is treated as reachable.
func (s *Services) validateReach(path *field.Path, address string) field.ErrorList {
	host, _, err := net.SplitHostPort(address)
	if err != nil || s.CertFile != "" || s.Insecure {
		return nil
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return field.ErrorList{field.Invalid(path, address,
		fmt.Sprintf("others can reach it, and there is no TLS: set %s and %s, or %s", "certFile", "keyFile", "insecure: true"))}
}

// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/v1alpha1"
)

// Environments is how Environments are run.
type Environments struct {
	// namespacePerEnvironment makes a namespace for each of them. Otherwise an environment runs in the namespace of its object,
	// which can have one environment then. Default: true.
	//
	// +optional
	NamespacePerEnvironment bool `json:"namespacePerEnvironment"`

	// namespacePrefix begins the names of those namespaces, at most 4 characters. Default: "env-".
	//
	// +optional
	NamespacePrefix string `json:"namespacePrefix"`

	// schedulerName schedules their pods. Empty leaves it to the cluster's default scheduler, and makes no mix and no sizes.
	// Default: berth-scheduler.
	//
	// +optional
	SchedulerName string `json:"schedulerName"`

	// spotPercent is the share of the replicas of a component on spot nodes, from 0 to 100 percent, for environments that do
	// not say. One replica of each stays on an on-demand node, and the database. Default: 50.
	//
	// +optional
	SpotPercent int32 `json:"spotPercent"`

	// exposure is how ports are reached from outside of the cluster: LoadBalancer, NodePort, HostPort or None. It exposes the
	// ports of all components, databases included. With HostPort two environments may have the same port, on different nodes.
	// Default: None.
	//
	// +optional
	Exposure string `json:"exposure"`

	// firstPort and lastPort are the range of the ports that are allocated where none is requested by number, from 1 to 65535.
	// With NodePort it must be in that of the API server. Default: 30000 and 32767.
	//
	// +optional
	FirstPort int32 `json:"firstPort"`

	// lastPort is the end of that range.
	//
	// +optional
	LastPort int32 `json:"lastPort"`

	// hostPaths are the directories of nodes, and all in them, that volumes may be. A volume of another is a claim. Whoever
	// may make an environment can read and write what is in them. Default: none.
	//
	// +optional
	// +listType=set
	HostPaths []string `json:"hostPaths"`

	// storageClass makes the volumes. Default: empty, which means the cluster's.
	//
	// +optional
	StorageClass string `json:"storageClass"`

	// volumeSize is the size of volumes that say none. Default: 1Gi.
	//
	// +optional
	VolumeSize string `json:"volumeSize"`

	// domains are the host names that frontends may have, by the namespace of their Environment; those of "*" are for all
	// namespaces. "*.example.com" is every name below example.com, "*" is every name. A frontend is not reached by another
	// domain, and the condition RoutesAccepted lists it. Default: none.
	//
	// +optional
	Domains map[string][]string `json:"domains"`

	// ingressClass is the class of the Ingresses of domains. Default: empty, which means the cluster's.
	//
	// +optional
	IngressClass string `json:"ingressClass"`

	// gateway is the Gateway, as namespace/name, that leads domains to frontends: by an HTTPRoute (gateway.networking.k8s.io/v1)
	// in place of an Ingress. Its listeners must allow routes of the environments' namespaces. Default: empty, which means
	// Ingresses.
	//
	// +optional
	Gateway string `json:"gateway"`

	// gatewayTLSListener is the name of the listener of that Gateway which ends TLS and has the certificates: an HTTPRoute of
	// domains with TLS is of this listener alone, and so never served in the clear. Default: https.
	//
	// +optional
	GatewayTLSListener string `json:"gatewayTLSListener"`

	// outsideNetworks are the networks from which isolated environments are reached from outside of the cluster, at the ports
	// that exposure leads to and at those of frontends: of clients, load balancers and nodes, as CIDRs. The network of the
	// pods must not be in them: others of these pods would come in too. Default: none, which means that no one does.
	//
	// +optional
	// +listType=set
	OutsideNetworks []string `json:"outsideNetworks"`

	// runAsNonRoot refuses containers that run as root. Many images of databases and web servers start so. Default: false.
	//
	// +optional
	RunAsNonRoot bool `json:"runAsNonRoot"`

	// namespaceLabels are labels of the namespaces that are created for environments. pod-security.kubernetes.io/enforce must be
	// privileged with hostPaths and with exposure HostPort. Default: pod-security.kubernetes.io/enforce: baseline.
	//
	// +optional
	NamespaceLabels Texts `json:"namespaceLabels"`

	// copiedLabels are the keys of labels that such a namespace has from the namespace of the Environment. They override
	// namespaceLabels. Default: pod-security.kubernetes.io/enforce and pod-security.kubernetes.io/enforce-version.
	//
	// +optional
	// +listType=set
	CopiedLabels []string `json:"copiedLabels"`

	// quota bounds what an environment with a namespace of its own may use, as spec.hard of a ResourceQuota. Default: 100 pods,
	// 50 persistentvolumeclaims, 1Ti of requests.storage.
	//
	// +optional
	Quota Texts `json:"quota"`

	// defaultLimits are requests and limits of containers that say none, in a namespace of their own: cpu, memory. Default: none.
	//
	// +optional
	DefaultLimits map[string]string `json:"defaultLimits"`

	// startTimeoutSeconds is how long a start may take before the environment is Failed, from 10 to 86400 seconds. It goes on
	// trying. Default: 600.
	//
	// +optional
	StartTimeoutSeconds int32 `json:"startTimeoutSeconds"`

	// cleanUpFailedSeconds is how long after that what was made for an environment that never ran is removed, from 0 to
	// 604800 seconds; its object stays and reports it. 0 leaves it. Default: 0.
	//
	// +optional
	CleanUpFailedSeconds int32 `json:"cleanUpFailedSeconds"`

	// historyLimit is how many specs of an environment are kept, from 1 to 100. Default: 10.
	//
	// +optional
	HistoryLimit int32 `json:"historyLimit"`
}

// Exposures are the ways in which ports are reached from outside.
var exposures = []string{"LoadBalancer", "NodePort", exposeHostPort, exposeNone}

const (
	exposeNone     = "None"
	exposeHostPort = "HostPort"
	// enforceLabel is the label of a namespace by which Pod Security refuses pods above a level, privileged is the level that
	// allows all.
	enforceLabel = "pod-security.kubernetes.io/enforce"
	privileged   = "privileged"
)

// AnyNamespace is the key of the domains that are for all namespaces.
const AnyNamespace = "*"

// Texts are labels or amounts. Those of a file replace those of the default. Without a type of its own, the keys of the default would stay.
type Texts map[string]string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Texts) UnmarshalJSON(b []byte) error {
	var m map[string]string
	err := json.Unmarshal(b, &m)
	*t = m
	return err
}

func defaultEnvironments() Environments {
	return Environments{
		NamespacePerEnvironment: true, NamespacePrefix: "env-", SchedulerName: "berth-scheduler", SpotPercent: 50,
		Exposure: exposeNone, Domains: map[string][]string{}, FirstPort: 30000, LastPort: 32767, HostPaths: []string{}, OutsideNetworks: []string{}, VolumeSize: "1Gi",
		GatewayTLSListener: "https", NamespaceLabels: map[string]string{enforceLabel: "baseline"},
		CopiedLabels: []string{enforceLabel, enforceLabel + "-version"},
		Quota:        map[string]string{"pods": "100", "persistentvolumeclaims": "50", "requests.storage": "1Ti"}, DefaultLimits: map[string]string{}, StartTimeoutSeconds: 600, HistoryLimit: 10,
	}
}

func (e *Environments) validate(at *field.Path) field.ErrorList {
	all := inRange(at.Child("spotPercent"), e.SpotPercent, 0, 100)
	all = append(all, inRange(at.Child("startTimeoutSeconds"), e.StartTimeoutSeconds, 10, 86400)...)
	all = append(all, inRange(at.Child("cleanUpFailedSeconds"), e.CleanUpFailedSeconds, 0, 604800)...)
	all = append(all, inRange(at.Child("historyLimit"), e.HistoryLimit, 1, 100)...)
	first := inRange(at.Child("firstPort"), e.FirstPort, 1, 65535)
	if len(first) == 0 {
		first = inRange(at.Child("lastPort"), e.LastPort, e.FirstPort, 65535)
	}
	all = append(all, first...)
	const longest = 4 // of a name of 63, 52 are the environment's and 7 a hash
	if len(e.NamespacePrefix) > longest {
		all = append(all, field.TooLong(at.Child("namespacePrefix"), e.NamespacePrefix, longest))
	} else {
		all = append(all, named(at.Child("namespacePrefix"), e.NamespacePrefix, func(prefix string) []string { return validation.IsDNS1123Label(prefix + "x") })...)
	}
	if e.SchedulerName != "" {
		all = append(all, named(at.Child("schedulerName"), e.SchedulerName, validation.IsDNS1123Subdomain)...)
	}
	for name, class := range map[string]string{"storageClass": e.StorageClass, "ingressClass": e.IngressClass} {
		if class != "" {
			all = append(all, named(at.Child(name), class, validation.IsDNS1123Subdomain)...)
		}
	}
	all = append(all, e.validateGateway(at)...)
	all = append(all, e.validateOutside(at)...)
	all = append(all, e.validateDomains(at.Child("domains"))...)
	all = append(all, e.validateLabels(at)...)
	for i, p := range e.HostPaths {
		if !path.IsAbs(p) || strings.Contains(p, "..") {
			all = append(all, field.Invalid(at.Child("hostPaths").Index(i), p, "must be an absolute path"))
		}
	}
	all = append(all, amount(at.Child("volumeSize"), e.VolumeSize)...)
	for name, list := range map[string]map[string]string{"quota": e.Quota, "defaultLimits": e.DefaultLimits} {
		for key, value := range list {
			all = append(all, amount(at.Child(name).Key(key), value)...)
		}
	}
	return all
}

func (e *Environments) validateOutside(at *field.Path) (all field.ErrorList) {
	if !slices.Contains(exposures, e.Exposure) {
		all = append(all, field.NotSupported(at.Child("exposure"), e.Exposure, exposures))
	}
	for i, n := range e.OutsideNetworks {
		// As the API server has it in a NetworkPolicy.
		all = append(all, validation.IsValidCIDR(at.Child("outsideNetworks").Index(i), n)...)
	}
	return all
}

func (e *Environments) validateDomains(at *field.Path) (all field.ErrorList) {
	for namespace, domains := range e.Domains {
		if namespace != AnyNamespace {
			all = append(all, named(at.Key(namespace), namespace, validation.IsDNS1123Label)...)
		}
		for i, d := range domains {
			switch {
			case d == "*":
			case strings.HasPrefix(d, "*."):
				all = append(all, named(at.Key(namespace).Index(i), d, validation.IsWildcardDNS1123Subdomain)...)
			default:
				all = append(all, named(at.Key(namespace).Index(i), d, validation.IsDNS1123Subdomain)...)
			}
		}
	}
	return all
}

func (e *Environments) validateLabels(at *field.Path) (all field.ErrorList) {
	labels := at.Child("namespaceLabels")
	all = metavalidation.ValidateLabels(e.NamespaceLabels, labels)
	for key := range e.NamespaceLabels {
		all = append(all, notOfBerth(labels.Key(key), key)...)
	}
	for i, key := range e.CopiedLabels {
		all = append(all, metavalidation.ValidateLabelName(key, at.Child("copiedLabels").Index(i))...)
		all = append(all, notOfBerth(at.Child("copiedLabels").Index(i), key)...)
	}
	level := e.NamespaceLabels[enforceLabel]
	if e.NamespacePerEnvironment && level != "" && level != privileged && (len(e.HostPaths) > 0 || e.Exposure == exposeHostPort) {
		all = append(all, field.Invalid(labels.Key(enforceLabel), level,
			"must be privileged with hostPaths and with exposure HostPort: Pod Security refuses such pods otherwise"))
	}
	return all
}

// notOfBerth refuses labels by which Berth finds what it made.
func notOfBerth(at *field.Path, key string) field.ErrorList {
	if !strings.HasPrefix(key, v1alpha1.AnnotationPrefix+"/") {
		return nil
	}
	return field.ErrorList{field.Invalid(at, key, "must not begin with "+v1alpha1.AnnotationPrefix+"/")}
}

func (e *Environments) validateGateway(at *field.Path) field.ErrorList {
	all := named(at.Child("gatewayTLSListener"), e.GatewayTLSListener, validation.IsDNS1123Subdomain)
	if e.Gateway == "" {
		return all
	}
	gateway := at.Child("gateway")
	namespace, name, is := strings.Cut(e.Gateway, "/")
	if !is {
		return append(all, field.Invalid(gateway, e.Gateway, "must be namespace/name of a Gateway"))
	}
	for _, message := range append(validation.IsDNS1123Label(namespace), validation.IsDNS1123Subdomain(name)...) {
		all = append(all, field.Invalid(gateway, e.Gateway, "must be namespace/name of a Gateway: "+message))
	}
	return all
}

func amount(at *field.Path, value string) field.ErrorList {
	if q, err := resource.ParseQuantity(value); err != nil || q.Sign() < 0 {
		return field.ErrorList{field.Invalid(at, value, fmt.Sprintf("%q is no quantity such as 500m or 1Gi", value))}
	}
	return nil
}

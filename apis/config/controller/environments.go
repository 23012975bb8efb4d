// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/v1alpha1"
)

// Environments configures the controller of Environments.
type Environments struct {
	// namespacePerEnvironment creates a namespace for each Environment. If false, an environment runs in the namespace
	// of its object, which can then contain only one Environment. Defaults to true.
	//
	// +optional
	NamespacePerEnvironment bool `json:"namespacePerEnvironment"`

	// namespacePrefix is the prefix of the names of these namespaces, at most 4 characters. Defaults to "env-".
	//
	// +optional
	NamespacePrefix string `json:"namespacePrefix"`

	// schedulerName is the schedulerName of the pods. If empty, the default scheduler schedules them, and no
	// CapacityMix and no ResourceLimit is created. Defaults to berth-scheduler.
	//
	// +optional
	SchedulerName string `json:"schedulerName"`

	// spotPercent is the percentage of the replicas of a component on spot nodes, from 0 to 100, for environments that
	// do not set it. One replica of each component, and the database, stay on on-demand nodes. Defaults to 50.
	//
	// +optional
	SpotPercent int32 `json:"spotPercent"`

	// exposure specifies how ports are exposed outside of the cluster: LoadBalancer, NodePort, HostPort or None. It
	// applies to the ports of all components, including databases. With HostPort, two environments can use the same
	// port on different nodes. Defaults to None.
	//
	// +optional
	Exposure v1alpha1.EnvironmentExposure `json:"exposure"`

	// exposures are those that an Environment may set in spec.network.exposure, in addition to None and to exposure.
	// HostPort requires privileged pods, like exposure HostPort. Defaults to none.
	//
	// +optional
	// +listType=set
	Exposures []v1alpha1.EnvironmentExposure `json:"exposures"`

	// firstPort is the start of the range from which ports without a hostPort are allocated, from 1 to
	// 65535. With NodePort, the range must be within the API server's node port range. Defaults to 30000.
	//
	// +optional
	FirstPort int32 `json:"firstPort"`

	// lastPort is the end of the range, from firstPort to 65535. Defaults to 32767.
	//
	// +optional
	LastPort int32 `json:"lastPort"`

	// hostPaths are the directories of nodes that volumes may mount, including everything below them. A volume with
	// another hostPath is a PersistentVolumeClaim, or is not mounted if it is read-only. Every user who can create an
	// Environment can read and write these directories. Defaults to none.
	//
	// +optional
	// +listType=set
	HostPaths []string `json:"hostPaths"`

	// storageClass is the StorageClass of the volumes. Defaults to empty, which means the default StorageClass of the
	// cluster.
	//
	// +optional
	StorageClass string `json:"storageClass"`

	// volumeSize is the size of volumes that do not set one. Defaults to 1Gi.
	//
	// +optional
	VolumeSize string `json:"volumeSize"`

	// domains are the host names that frontends may use, by the namespace of their Environment. Those of "*" apply to
	// all namespaces. "*.example.com" allows every name below example.com, "*" every name. A frontend is not served
	// under other domains, which the condition RoutesAccepted lists. Defaults to none.
	//
	// +optional
	Domains map[string][]string `json:"domains"`

	// ingressClass is the class of the Ingresses of domains. Defaults to empty, which means the default class of the
	// cluster.
	//
	// +optional
	IngressClass string `json:"ingressClass"`

	// gateway is the Gateway, as namespace/name, that routes domains to frontends by HTTPRoutes
	// (gateway.networking.k8s.io/v1) instead of Ingresses. Its listeners must allow routes from the namespaces of the
	// environments. Defaults to empty, which means Ingresses.
	//
	// +optional
	Gateway string `json:"gateway"`

	// gatewayTLSListener is the name of the listener of the Gateway that terminates TLS and has the certificates. An
	// HTTPRoute of domains with TLS is attached to this listener only, so that it is never served without TLS. Defaults
	// to https.
	//
	// +optional
	GatewayTLSListener string `json:"gatewayTLSListener"`

	// outsideNetworks are the networks outside of the cluster from which isolated environments accept traffic, on
	// exposed ports and those of frontends: CIDRs of clients, load balancers and nodes. They must not contain the pod
	// network, because pods of other environments would be allowed too. Defaults to none, which allows no traffic from
	// outside.
	//
	// +optional
	// +listType=set
	OutsideNetworks []string `json:"outsideNetworks"`

	// dnsNamespace is the namespace of the cluster's DNS server, to which environments with restricted egress may connect.
	// Defaults to kube-system.
	//
	// +optional
	DNSNamespace string `json:"dnsNamespace"`

	// runAsNonRoot rejects containers that run as root. Many images of databases and web servers start as root.
	// Defaults to false.
	//
	// +optional
	RunAsNonRoot bool `json:"runAsNonRoot"`

	// namespaceLabels are the labels of the namespaces that are created for environments. With hostPaths and with
	// exposure HostPort, pod-security.kubernetes.io/enforce must be privileged. Other levels than baseline and
	// restricted require manifests/rbac/environments/privileged. Defaults to
	// pod-security.kubernetes.io/enforce: baseline.
	//
	// +optional
	NamespaceLabels Texts `json:"namespaceLabels"`

	// copiedLabels are the keys of labels that such a namespace copies from the namespace of the Environment. They
	// override namespaceLabels, but no Pod Security level is replaced by one that allows more. Defaults to
	// pod-security.kubernetes.io/enforce and pod-security.kubernetes.io/enforce-version.
	//
	// +optional
	// +listType=set
	CopiedLabels []string `json:"copiedLabels"`

	// quota is the spec.hard of the ResourceQuota of an environment with its own namespace. Defaults to 100 pods, 50
	// persistentvolumeclaims and 1Ti of requests.storage.
	//
	// +optional
	Quota Texts `json:"quota"`

	// defaultLimits are the default requests and limits of containers in an environment with its own namespace: cpu,
	// memory. Defaults to none.
	//
	// +optional
	DefaultLimits map[string]string `json:"defaultLimits"`

	// startTimeoutSeconds is the time after which an environment that has not started is Failed, in seconds from 10 to
	// 86400. The controller continues to start it. Defaults to 600.
	//
	// +optional
	StartTimeoutSeconds int32 `json:"startTimeoutSeconds"`

	// cleanUpFailedSeconds is the time after that after which the objects of an environment that never ran are deleted,
	// in seconds from 0 to 604800. The Environment stays and reports it. 0 disables it. Defaults to 0.
	//
	// +optional
	CleanUpFailedSeconds int32 `json:"cleanUpFailedSeconds"`

	// historyLimit is the number of specs of an environment that are kept, from 1 to 100. Defaults to 10.
	//
	// +optional
	HistoryLimit int32 `json:"historyLimit"`

	// endedLogLines is the number of the last lines that are kept of each container that ended, from 0 to 1000: 16 KiB of
	// each, of the last 20 of an environment, in the Secret ended-logs. It requires manifests/rbac/environments/logs. 0
	// keeps none. Defaults to 0.
	//
	// +optional
	EndedLogLines int32 `json:"endedLogLines"`

	// orphanIntervalSeconds is the interval of the search for objects of environments that no longer exist, in seconds from
	// 1 to 86400. Each is reported by an event. With namespaces set, nothing is searched. Defaults to 600.
	//
	// +optional
	OrphanIntervalSeconds int32 `json:"orphanIntervalSeconds"`

	// deleteOrphansAfterSeconds is how long such an object must have been found, since the controller became leader, before
	// it is deleted, in seconds from 0 to 2592000. Volumes, and namespaces with volumes, are never deleted. 0 deletes
	// nothing. Defaults to 0.
	//
	// +optional
	DeleteOrphansAfterSeconds int32 `json:"deleteOrphansAfterSeconds"`
}

const (
	// enforceLabel is the namespace label with the Pod Security level above which pods are rejected. privileged allows
	// all pods.
	enforceLabel = "pod-security.kubernetes.io/enforce"
	privileged   = "privileged"
)

// AnyNamespace is the key of the domains that apply to all namespaces.
const AnyNamespace = "*"

// Texts are labels or quantities. Those of a file replace the defaults: without its own type, decoding would merge the
// keys.
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
		Exposure: v1alpha1.ExposureNone, Exposures: []v1alpha1.EnvironmentExposure{}, Domains: map[string][]string{},
		FirstPort: 30000, LastPort: 32767, HostPaths: []string{},
		OutsideNetworks: []string{}, DNSNamespace: metav1.NamespaceSystem, VolumeSize: "1Gi",
		GatewayTLSListener: "https", NamespaceLabels: map[string]string{enforceLabel: "baseline"},
		CopiedLabels: []string{enforceLabel, enforceLabel + "-version"},
		Quota: map[string]string{
			"pods": "100", "persistentvolumeclaims": "50", "requests.storage": "1Ti",
		},
		DefaultLimits: map[string]string{}, StartTimeoutSeconds: 600, HistoryLimit: 10, OrphanIntervalSeconds: 600,
	}
}

func (e *Environments) validate(at *field.Path) field.ErrorList {
	all := inRange(at.Child("spotPercent"), e.SpotPercent, 0, 100)
	all = append(all, inRange(at.Child("startTimeoutSeconds"), e.StartTimeoutSeconds, 10, 86400)...)
	all = append(all, inRange(at.Child("cleanUpFailedSeconds"), e.CleanUpFailedSeconds, 0, 604800)...)
	all = append(all, inRange(at.Child("historyLimit"), e.HistoryLimit, 1, 100)...)
	all = append(all, inRange(at.Child("endedLogLines"), e.EndedLogLines, 0, 1000)...)
	all = append(all, inRange(at.Child("orphanIntervalSeconds"), e.OrphanIntervalSeconds, 1, 86400)...)
	all = append(all, inRange(at.Child("deleteOrphansAfterSeconds"), e.DeleteOrphansAfterSeconds, 0, 2592000)...)
	first := inRange(at.Child("firstPort"), e.FirstPort, 1, 65535)
	if len(first) == 0 {
		first = inRange(at.Child("lastPort"), e.LastPort, e.FirstPort, 65535)
	}
	all = append(all, first...)
	const longest = 4 // 52 of the 63 characters of a name are the environment's, 7 are a hash
	if len(e.NamespacePrefix) > longest {
		all = append(all, field.TooLong(at.Child("namespacePrefix"), e.NamespacePrefix, longest))
	} else {
		all = append(all, named(at.Child("namespacePrefix"), e.NamespacePrefix,
			func(prefix string) []string { return validation.IsDNS1123Label(prefix + "x") })...)
	}
	all = append(all, namedIfSet(at.Child("schedulerName"), e.SchedulerName, validation.IsDNS1123Subdomain)...)
	all = append(all, namedIfSet(at.Child("storageClass"), e.StorageClass, validation.IsDNS1123Subdomain)...)
	all = append(all, namedIfSet(at.Child("ingressClass"), e.IngressClass, validation.IsDNS1123Subdomain)...)
	all = append(all, named(at.Child("dnsNamespace"), e.DNSNamespace, validation.IsDNS1123Label)...)
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
	if !slices.Contains(v1alpha1.EnvironmentExposures, e.Exposure) {
		all = append(all, field.NotSupported(at.Child("exposure"), e.Exposure, v1alpha1.EnvironmentExposures))
	}
	for i, x := range e.Exposures {
		if !slices.Contains(v1alpha1.EnvironmentExposures, x) {
			all = append(all, field.NotSupported(at.Child("exposures").Index(i), x, v1alpha1.EnvironmentExposures))
		}
	}
	for i, n := range e.OutsideNetworks {
		// The API server has the same rule for NetworkPolicies.
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
	hostPorts := e.Exposure == v1alpha1.ExposureHostPort || slices.Contains(e.Exposures, v1alpha1.ExposureHostPort)
	if e.NamespacePerEnvironment && level != "" && level != privileged && (len(e.HostPaths) > 0 || hostPorts) {
		all = append(all, field.Invalid(labels.Key(enforceLabel), level,
			"must be privileged with hostPaths and with HostPort in exposure or exposures: otherwise Pod Security rejects such pods"))
	}
	return all
}

// notOfBerth rejects the labels by which Berth identifies its objects.
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
		return field.ErrorList{field.Invalid(at, value, "must be a quantity such as 500m or 1Gi")}
	}
	return nil
}

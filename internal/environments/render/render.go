// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

// Settings are what environments of a cluster have in common.
type Settings struct {
	// SchedulerName schedules their pods; "" leaves it to the cluster's default, and makes no mix.
	SchedulerName string
	// SpotPercent is the share of replicas on spot nodes where an environment sets none.
	SpotPercent int32
	// Exposure is that of ports where an environment does not set it.
	Exposure v1alpha1.EnvironmentExposure
	// Exposures are those that an environment may set beside it, and None.
	Exposures []v1alpha1.EnvironmentExposure
	// HostPaths are the directories of nodes, and what is in them, that volumes may be. None allows none.
	HostPaths []string
	// StorageClass makes the volumes; "" means the cluster's default.
	StorageClass string
	// VolumeSize is the size of volumes without one, as a quantity.
	VolumeSize string
	// IngressClass is the class of Ingresses; "" means the cluster's default.
	IngressClass string
	// Gateway leads domains to the frontend by HTTPRoutes, in place of Ingresses; one without a name is none. TLSListener is
	// the name of its listener that ends TLS.
	Gateway     types.NamespacedName
	TLSListener string
	// OutsideNetworks are the CIDRs from which isolated environments are reached from outside of the cluster. None: no one.
	OutsideNetworks []string
	// DNSNamespace is the namespace of the cluster's DNS server.
	DNSNamespace string
	// Domains are the host names that frontends may have.
	Domains Domains
	// RunAsNonRoot refuses containers that run as root. Images of databases and web servers often start so.
	RunAsNonRoot bool
	// Quota bounds what an environment with a namespace of its own may use, as in a ResourceQuota.
	Quota corev1.ResourceList
	// DefaultLimits are those of containers without limits, in a namespace of their own.
	DefaultLimits corev1.ResourceList
}

// Credentials are what is secret.
type Credentials struct {
	// Password is that of the database.
	Password string
	// ConnectionString is what the backend was given in place of the one that is made of the database.
	ConnectionString string
	// APIKeys are environment variables of the backend.
	APIKeys map[string]string
	// Version changes when they do. It is no secret.
	Version string
}

// Input is all that is rendered from.
type Input struct {
	Environment *v1alpha1.Environment
	Settings    Settings
	Credentials Credentials
	// Namespace is where the objects are made; Own is set if it is the environment's alone.
	Namespace string
	Own       bool
	// Ports were allocated. OpenStages are the stages that are open: see EnvironmentStatus.
	Ports      []v1alpha1.AllocatedPort
	OpenStages int32
	// Restarts are those of Situation.RestartOf.
	Restarts map[string]string
	// ServicePorts are the ports of the Services that exist, by their names.
	ServicePorts map[string][]corev1.ServicePort
	// Scaled are the replicas of the Deployments that exist, by their names.
	Scaled map[string]int32
}

// Render returns the objects of an environment, in the order in which they are applied: what pods need before the pods.
func Render(in *Input) []runtime.Object {
	var out []runtime.Object
	add := func(objects ...runtime.Object) { out = append(out, objects...) }
	components := in.Components()
	add(in.bounds()...)
	add(in.networkPolicies(components)...)
	add(in.mixes(components)...)
	for i := range components {
		c := &components[i]
		add(in.secret(c)...)
		add(in.size(c)...)
		add(in.claims(c)...)
		add(in.services(c)...)
		add(in.budget(c)...)
		add(in.workload(c))
		add(in.autoscaler(c)...)
	}
	add(in.domains()...)
	return out
}

// ManagedComponent is the value of ComponentLabel on what is made for environments.
const ManagedComponent = "environment"

// Labels are those of everything that is made for an environment.
func Labels(e *v1alpha1.Environment) map[string]string {
	return map[string]string{v1alpha1.EnvironmentLabel: e.Name, v1alpha1.EnvironmentNamespaceLabel: e.Namespace}
}

// MadeFor reports whether an object was made for an environment.
func MadeFor(o metav1.Object, e *v1alpha1.Environment) bool {
	return o.GetLabels()[v1alpha1.EnvironmentLabel] == e.Name && o.GetLabels()[v1alpha1.EnvironmentNamespaceLabel] == e.Namespace
}

// meta is the metadata of an object that belongs to a component, or to none.
func (in *Input) meta(name, component string) metav1.ObjectMeta {
	labels := Labels(in.Environment)
	labels[v1alpha1.ComponentLabel] = ManagedComponent
	if component != "" {
		labels[v1alpha1.EnvironmentComponentLabel] = component
	}
	return metav1.ObjectMeta{Name: name, Namespace: in.Namespace, Labels: labels}
}

// selects are the labels of a component's pods.
func (in *Input) selects(component string) map[string]string {
	// A namespace has one environment.
	return map[string]string{v1alpha1.EnvironmentLabel: in.Environment.Name, v1alpha1.EnvironmentComponentLabel: component}
}

// bounds are what keeps an environment from taking the whole cluster.
func (in *Input) bounds() (out []runtime.Object) {
	if in.Own && len(in.Settings.Quota) > 0 {
		out = append(out, &corev1.ResourceQuota{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"}, ObjectMeta: in.meta("environment", ""),
			Spec: corev1.ResourceQuotaSpec{Hard: in.Settings.Quota},
		})
	}
	if in.Own && len(in.Settings.DefaultLimits) > 0 {
		out = append(out, &corev1.LimitRange{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "LimitRange"}, ObjectMeta: in.meta("environment", ""),
			Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
				Type: corev1.LimitTypeContainer, Default: in.Settings.DefaultLimits, DefaultRequest: in.Settings.DefaultLimits,
			}}},
		})
	}
	return out
}

// secret is what the component's container has in its environment and no one else should read.
func (in *Input) secret(c *stack.Component) []runtime.Object {
	data := in.secrets(c)
	if len(data) == 0 {
		return nil
	}
	return []runtime.Object{&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: in.meta(c.Name, c.Name),
		Type:       corev1.SecretTypeOpaque,
		Data:       data,
	}}
}

// secrets are the variables of a component that are secret.
func (in *Input) secrets(c *stack.Component) map[string][]byte {
	data := map[string][]byte{}
	switch c.Name {
	case stack.Database:
		data[PostgresPassword] = []byte(in.Credentials.Password)
	case stack.Backend:
		for name, key := range in.Credentials.APIKeys {
			data[name] = []byte(key)
		}
		if url := in.databaseURL(); url != "" {
			data[databaseURL] = []byte(url)
		}
	}
	return data
}

// budget keeps a drain from taking all replicas of a component at once.
func (in *Input) budget(c *stack.Component) []runtime.Object {
	most := c.Replicas
	if c.Autoscaling != nil {
		most = c.Autoscaling.MaxReplicas
	}
	if c.Workload == stack.OfJob || most < 2 {
		return nil
	}
	return []runtime.Object{&policyv1.PodDisruptionBudget{
		TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}, ObjectMeta: in.meta(c.Name, c.Name),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: in.selects(c.Name)},
		},
	}}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

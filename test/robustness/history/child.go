// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
)

// childPrefixes are those of the kinds, beside budgets, mixes and limits, that Berth makes for DeploymentRecords and Environments.
var childPrefixes = []string{
	"/registry/deployments/", "/registry/services/specs/", "/registry/configmaps/", "/registry/secrets/", "/registry/networkpolicies/",
	"/registry/persistentvolumeclaims/",
}

// Child is what is kept of an object that was made for a product: a DeploymentRecord or an Environment.
type Child struct {
	// Product is the kind, the namespace and the name of the product, ProductUID the UID that the owner reference has, if there is one.
	Product    string    `json:"product"`
	ProductUID types.UID `json:"productUID,omitempty"`
	// Kind is that of the object where it can be declared, Role what it is there for.
	Kind string `json:"kind,omitempty"`
	Name string `json:"name"`
	Role string `json:"role,omitempty"`
	// Image and Replicas are those of a Deployment.
	Image    string `json:"image,omitempty"`
	Replicas int32  `json:"replicas,omitempty"`
}

// ProductOf names a product as its children do.
func ProductOf(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

// childOf is the child that an object is, nil for none.
func childOf(o runtime.Object) *Child {
	m, is := o.(metav1.Object)
	if !is {
		return nil
	}
	c := &Child{Name: m.GetName()}
	labels := m.GetLabels()
	switch record, environment := labels[v1alpha1.OwnerLabel], labels[v1alpha1.EnvironmentLabel]; {
	case record != "":
		c.Product = ProductOf("DeploymentRecord", m.GetNamespace(), record)
	case environment != "":
		c.Product = ProductOf("Environment", labels[v1alpha1.EnvironmentNamespaceLabel], environment)
	default:
		return nil
	}
	switch o := o.(type) {
	case *corev1.Pod, *appsv1.ReplicaSet, *appsv1.StatefulSet: // theirs are made by others
		return nil
	case *appsv1.Deployment:
		c.Kind, c.Image, c.Replicas = "Deployment", o.Spec.Template.Spec.Containers[0].Image, *o.Spec.Replicas
	case *corev1.Service:
		c.Kind = "Service"
	}
	if owner := metav1.GetControllerOfNoCopy(m); owner != nil {
		c.ProductUID = owner.UID
	}
	c.Role = cmp.Or(labels[v1alpha1.FunctionLabel], labels[v1alpha1.EnvironmentComponentLabel])
	return c
}

// empty reports whether nothing is kept of an object.
func (c *Change) empty() bool {
	return c.Pod == nil && c.Node == nil && c.Budget == nil && c.Mix == nil && c.Owner == nil && c.Record == nil && c.Environment == nil &&
		c.Child == nil
}

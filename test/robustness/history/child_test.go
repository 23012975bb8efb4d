// SPDX-License-Identifier: Apache-2.0

package history

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/apis/v1alpha1"
)

func TestChildrenAreFoundByTheirLabels(t *testing.T) {
	ofRecord := metav1.ObjectMeta{
		Namespace: "shop", Name: "cart", Labels: map[string]string{v1alpha1.OwnerLabel: "cart", v1alpha1.FunctionLabel: "f"},
		OwnerReferences: []metav1.OwnerReference{{UID: "1", Controller: new(true)}},
	}
	ofEnvironment := metav1.ObjectMeta{Namespace: "env-shop-test", Name: "frontend", Labels: map[string]string{
		v1alpha1.EnvironmentLabel: "test", v1alpha1.EnvironmentNamespaceLabel: "shop", v1alpha1.EnvironmentComponentLabel: "frontend",
	}}
	deployment := &appsv1.Deployment{ObjectMeta: ofRecord, Spec: appsv1.DeploymentSpec{Replicas: new(int32(2))}}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Image: "a"}}
	for name, c := range map[string]struct {
		object runtime.Object
		want   *Child
	}{
		"a Deployment of a record": {deployment, &Child{
			Product: "DeploymentRecord shop/cart", ProductUID: "1", Kind: "Deployment", Name: "cart", Role: "f", Image: "a", Replicas: 2,
		}},
		"a Service of an environment in a namespace of its own": {&corev1.Service{ObjectMeta: ofEnvironment}, &Child{
			Product: "Environment shop/test", Kind: "Service", Name: "frontend", Role: "frontend",
		}},
		"a budget of an environment": {&policyv1.PodDisruptionBudget{ObjectMeta: ofEnvironment}, &Child{
			Product: "Environment shop/test", Name: "frontend", Role: "frontend",
		}},
		"a pod of a record":             {&corev1.Pod{ObjectMeta: ofRecord}, nil},
		"a ReplicaSet of a record":      {&appsv1.ReplicaSet{ObjectMeta: ofRecord}, nil},
		"a Service of others":           {&corev1.Service{}, nil},
		"what is no object of its kind": {nil, nil},
	} {
		assert.Equal(t, c.want, childOf(c.object), name)
	}
}

func TestCustomResourcesAreReadAsJSON(t *testing.T) {
	for prefix, kept := range map[string]func(*Change) bool{
		Mixes:        func(c *Change) bool { return c.Mix != nil && c.Child != nil },
		Records:      func(c *Change) bool { return c.Record != nil && c.Child == nil },
		Environments: func(c *Change) bool { return c.Environment != nil && c.Child == nil },
		limits:       func(c *Change) bool { return c.Child != nil },
	} {
		var c Change
		require.NoError(t, c.decode(prefix, []byte(`{"metadata": {"name": "a"}}`)))
		labelled := prefix == Mixes || prefix == limits
		if labelled {
			require.NoError(t, c.decode(prefix, []byte(`{"metadata": {"labels": {"`+v1alpha1.EnvironmentLabel+`": "test"}}}`)))
		}
		assert.True(t, kept(&c), prefix)
		assert.False(t, c.empty(), prefix)
		assert.Error(t, c.decode(prefix, []byte("{")), prefix)
	}
	assert.True(t, (&Change{}).empty())
}

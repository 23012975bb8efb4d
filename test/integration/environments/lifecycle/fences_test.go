// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

const enforce = "pod-security.kubernetes.io/enforce"

// What holds for an environment whose administrator has configured nothing: nothing outside of the cluster reaches it, its pods meet the baseline
// of Pod Security, and a quota bounds it.
func TestAnEnvironmentHasFencesByDefault(t *testing.T) {
	s := start(t, func(c *controller.Configuration) {
		c.Environments = controller.Default().Environments
		c.Controllers = []string{controller.ControllerEnvironments}
	})
	e := environment("shop")
	e.Spec.Stack.Frontend.Domains = []string{"shop.example.com"}
	e.Spec.Stack.Database.PersistentStorage = true
	e = s.runs(e)

	for _, service := range testenv.List(s.World, &corev1.ServiceList{}, client.InNamespace(e.Status.Namespace)).Items {
		assert.Equal(t, corev1.ServiceTypeClusterIP, service.Spec.Type, service.Name)
	}
	assert.Empty(t, s.names(e, &networkingv1.IngressList{}))
	c := condition(e, "RoutesAccepted")
	assert.Equal(t, metav1.ConditionFalse, c.Status)
	assert.Equal(t, v1alpha1.ReasonDomainNotAllowed, c.Reason)
	assert.Contains(t, c.Message, "shop.example.com")

	assert.Equal(t, "baseline", s.namespace(e).Labels[enforce])
	root := builders.Pod("root", "root", func(p *corev1.PodTemplateSpec) { p.Spec.HostNetwork = true })
	root.Namespace = e.Status.Namespace
	require.ErrorContains(t, s.Client.Create(s.Ctx, root, client.DryRunAll), `violates PodSecurity "baseline`)
	assert.EqualValues(t, 100, in(s, e, "environment", &corev1.ResourceQuota{}).Spec.Hard.Pods().Value())
}

// An author does not leave what is enforced in their own namespace.
func TestEnvironmentNamespaceEnforcesThePodSecurityOfItsAuthor(t *testing.T) {
	s := share(t)
	testenv.Patch(s.World, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}, func(n *corev1.Namespace) {
		n.Labels[enforce], n.Labels["team"] = "restricted", "checkout"
	})
	s.Create(environment("shop"))
	s.Eventually("it has a namespace", func() (bool, string) {
		e := s.get("shop")
		ns, err := s.Kube.CoreV1().Namespaces().Get(s.Ctx, e.Status.Namespace, metav1.GetOptions{})
		if err != nil || e.Status.Namespace == "" {
			return false, fmt.Sprint(err)
		}
		assert.NotContains(t, ns.Labels, "team")
		return ns.Labels[enforce] == "restricted", fmt.Sprint(ns.Labels)
	})
}

// Whoever may write an Environment must not read the password of another one by it.
func TestTheSecretOfAnotherEnvironmentIsNotRead(t *testing.T) {
	s := share(t)
	victim := environment("victim")
	s.Create(victim)
	s.Create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "victim-credentials", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "berth.dev/v1alpha1", Kind: "Environment", Name: "victim", UID: victim.UID, Controller: new(true)},
		}},
		Data: map[string][]byte{v1alpha1.DatabaseConnectionKey: []byte("postgres://stolen"), v1alpha1.DatabasePasswordKey: []byte("stolen")},
	}, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "labelled", Labels: map[string]string{v1alpha1.EnvironmentLabel: "victim", v1alpha1.EnvironmentNamespaceLabel: s.Namespace}},
		Data:       map[string][]byte{v1alpha1.DatabaseConnectionKey: []byte("postgres://stolen")},
	})
	for thief, secret := range map[string]string{"thief": "victim-credentials", "burglar": "labelled"} {
		e := environment(thief)
		e.Spec.Stack.Backend.SecretRef = &v1alpha1.EnvironmentSecret{Name: secret}
		s.Create(e)
		e = s.comes(thief, v1alpha1.EnvironmentFailed)
		assert.Equal(t, v1alpha1.ReasonSecretNotAllowed, condition(e, v1alpha1.ConditionDegraded).Reason)
		assert.Empty(t, s.names(e, &corev1.SecretList{}))
	}
}

// A stop that is forced ends pods where the policy for placeholders holds too.
func TestAForcedStopEndsPodsWherePlaceholdersAreAllowed(t *testing.T) {
	s := start(t)
	s.ApplyFiles("manifests/rbac/placeholders")
	e := environment("shop")
	e = s.runs(e)
	// The pods end late by themselves, as those of a node that is gone never do.
	for _, component := range []string{"backend", "frontend"} {
		p := s.pods(e, component)[0]
		patch := []byte(`{"metadata":{"annotations":{"` + cluster.PodDeleteDelay + `":"25s"}}}`)
		_, err := s.Kube.CoreV1().Pods(p.Namespace).Patch(s.Ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		require.NoError(t, err)
	}
	s.change("shop", func(e *v1alpha1.Environment) { e.Spec.RunPolicy, e.Spec.ForceStop = v1alpha1.RunPolicyStopped, true })
	s.comes("shop", v1alpha1.EnvironmentStopped)
	used, refused := s.RightsUsedBy(cluster.BerthEnvironmentsUser)
	assert.True(t, used["delete /pods"])
	assert.NotContains(t, refused, "delete /pods")
}

// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
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
func TestAnEnvironmentIsIsolatedAndBoundedByDefault(t *testing.T) {
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

// An administrator who allows more than baseline grants the right to it, and an author cannot.
func TestAPrivilegedNamespaceRequiresAPermission(t *testing.T) {
	s := start(t, func(c *controller.Configuration) {
		c.Environments.NamespaceLabels = map[string]string{enforce: "privileged"}
	})
	s.Create(environment("shop"))
	s.Eventually("the refusal is reported", func() (bool, string) {
		message := s.get("shop").Status.Message
		return strings.Contains(message, enforce) && strings.Contains(message, "manifests/rbac/environments/privileged"), message
	})
	s.ApplyFiles("manifests/rbac/environments/privileged")
	t.Cleanup(func() {
		s.Delete(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "berth-environments-privileged"}})
	})
	e := s.comes("shop", v1alpha1.EnvironmentRunning)
	assert.Equal(t, "privileged", s.namespace(e).Labels[enforce])
}

// Nor does an author with a privileged namespace escape the level of the configuration.
func TestAnAuthorDoesNotLowerThePodSecurityLevel(t *testing.T) {
	s := share(t)
	testenv.Patch(s.World, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}, func(n *corev1.Namespace) {
		n.Labels[enforce] = "privileged"
	})
	e := s.runs(environment("shop"))
	assert.Equal(t, "baseline", s.namespace(e).Labels[enforce])
}

// secured are the fields with which a container meets the Pod Security Standard restricted.
func secured() *v1alpha1.EnvironmentSecurityContext {
	return &v1alpha1.EnvironmentSecurityContext{
		RunAsUser: new(int64(1000)), RunAsGroup: new(int64(1000)), FSGroup: new(int64(1000)), RunAsNonRoot: true, ReadOnlyRootFilesystem: true,
		Capabilities: &v1alpha1.EnvironmentCapabilities{
			Drop: []string{"ALL"}, Add: []v1alpha1.EnvironmentCapability{"NET_BIND_SERVICE"},
		},
	}
}

func TestAnEnvironmentRunsUnderTheRestrictedStandard(t *testing.T) {
	s := share(t)
	testenv.Patch(s.World, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}, func(n *corev1.Namespace) {
		n.Labels[enforce] = "restricted"
	})
	e := environment("shop")
	e.Spec.Stack.AdditionalServices, e.Spec.Stack.Frontend = nil, nil
	for _, c := range []*v1alpha1.EnvironmentContainer{&e.Spec.Stack.Database.Container, &e.Spec.Stack.Backend.Container} {
		c.SecurityContext = secured()
		c.Volumes = append(c.Volumes, v1alpha1.EnvironmentVolume{Name: "tmp", MountPath: "/tmp", Ephemeral: true})
	}
	e.Spec.Network = &v1alpha1.EnvironmentNetwork{Egress: &v1alpha1.EnvironmentEgress{Networks: []string{"10.0.0.0/8", "2001:db8::/32"}}}
	e = s.runs(e)
	assert.Equal(t, "restricted", s.namespace(e).Labels[enforce])
	assert.Equal(t, []string{"egress"}, s.names(e, &networkingv1.NetworkPolicyList{}))
	pod := s.pods(e, "backend")[0]
	assert.True(t, *pod.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem)
	assert.Contains(t, condition(e, v1alpha1.ConditionNetworkConfigured).Message, "10.0.0.0/8, 2001:db8::/32")
}

func TestTheAPIServerRefusesInvalidSecurityContexts(t *testing.T) {
	s := share(t)
	for message, change := range map[string]func(*v1alpha1.Environment, *v1alpha1.EnvironmentSecurityContext){
		"runAsUser must not be 0 with runAsNonRoot": func(_ *v1alpha1.Environment, c *v1alpha1.EnvironmentSecurityContext) {
			c.RunAsUser = new(int64(0))
		},
		`Unsupported value: "SYS_ADMIN"`: func(_ *v1alpha1.Environment, c *v1alpha1.EnvironmentSecurityContext) {
			c.Capabilities.Add = []v1alpha1.EnvironmentCapability{"SYS_ADMIN"}
		},
		"capabilities.drop[0]": func(_ *v1alpha1.Environment, c *v1alpha1.EnvironmentSecurityContext) {
			c.Capabilities.Drop = []string{"cap_mknod"}
		},
		"localhostProfile must be set with the type Localhost, and only with it": func(_ *v1alpha1.Environment, c *v1alpha1.EnvironmentSecurityContext) {
			c.SeccompProfile = &v1alpha1.EnvironmentSeccompProfile{Type: v1alpha1.SeccompLocalhost}
		},
		"localhostProfile must be a relative path": func(_ *v1alpha1.Environment, c *v1alpha1.EnvironmentSecurityContext) {
			c.SeccompProfile = &v1alpha1.EnvironmentSeccompProfile{Type: v1alpha1.SeccompLocalhost, LocalhostProfile: "a/../../b"}
		},
		"networks must be CIDRs without host bits": func(e *v1alpha1.Environment, _ *v1alpha1.EnvironmentSecurityContext) {
			e.Spec.Network = &v1alpha1.EnvironmentNetwork{Egress: &v1alpha1.EnvironmentEgress{Networks: []string{"10.0.0.1/8"}}}
		},
		"ephemeral must be false with hostPath": func(e *v1alpha1.Environment, _ *v1alpha1.EnvironmentSecurityContext) {
			e.Spec.Stack.Backend.Container.Volumes = []v1alpha1.EnvironmentVolume{{MountPath: "/x", HostPath: "/x", Ephemeral: true}}
		},
	} {
		e := environment("shop")
		e.Namespace = s.Namespace
		c := secured()
		e.Spec.Stack.Backend.Container.SecurityContext = c
		require.NoError(t, s.Client.Create(s.Ctx, e.DeepCopy(), client.DryRunAll))
		change(e, c)
		require.ErrorContains(t, s.Client.Create(s.Ctx, e, client.DryRunAll), message)
	}
}

// A user who may write an Environment must not read the password of another one by it.
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
	assert.True(t, s.RightsUsedBy(cluster.BerthEnvironmentsUser)["delete /pods"])
	assert.NotContains(t, s.RefusedHere(cluster.BerthEnvironmentsUser, e.Status.Namespace), "delete /pods")
}

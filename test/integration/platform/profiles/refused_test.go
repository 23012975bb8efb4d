// SPDX-License-Identifier: Apache-2.0

package profiles_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// never are the rights that docs/security.md excludes, as verb group/resource.
var never = map[string][]string{
	"": { // of every account
		"create /nodes", "patch /nodes", "patch /nodes/status", "delete /nodes", "create /serviceaccounts", "patch /serviceaccounts",
		"create rbac.authorization.k8s.io/rolebindings", "create rbac.authorization.k8s.io/clusterrolebindings",
		"patch rbac.authorization.k8s.io/roles", "patch rbac.authorization.k8s.io/clusterroles",
		"bind rbac.authorization.k8s.io/clusterroles", "escalate rbac.authorization.k8s.io/clusterroles",
		"patch apiextensions.k8s.io/customresourcedefinitions", "patch admissionregistration.k8s.io/validatingadmissionpolicies",
		"delete admissionregistration.k8s.io/validatingadmissionpolicybindings",
		"create admissionregistration.k8s.io/mutatingwebhookconfigurations",
		"patch admissionregistration.k8s.io/mutatingwebhookconfigurations", // without a name
		"list /secrets", "watch /secrets", "impersonate /users", "impersonate /groups", "impersonate /serviceaccounts",
		"create /serviceaccounts/token", "approve certificates.k8s.io/signers", "patch /pods/ephemeralcontainers",
		"create /pods/exec", "create /pods/attach", "create /pods/portforward", "get /pods/proxy", "get /nodes/proxy",
	},
	scheduler: {
		"get /secrets", "get /configmaps", "list /configmaps", "create /pods", "create /pods/eviction", "create apps/deployments",
		"get /pods/log",
	},
	controller: {
		"get /secrets", "create /secrets", "patch /secrets", "update /secrets", "create /pods/binding", "create /namespaces",
		"create apps/statefulsets", "patch apps/statefulsets", "create batch/jobs", "update apps/deployments/scale", "get /pods/log",
		"create apps/deployments", "patch apps/deployments", "create /services", "patch berth.dev/deploymentrecords",
		"create berth.dev/capacitymixes", "create autoscaling/horizontalpodautoscalers",
	},
	records: {
		"get /secrets", "create /secrets", "create /pods", "patch /pods", "delete /pods", "create /pods/eviction", "create /pods/binding",
		"create /namespaces", "create apps/statefulsets", "create batch/jobs", "get /pods/log", "patch berth.dev/environments",
	},
	console: {
		"get /pods", "create /pods", "patch /pods", "delete /pods", "create /pods/eviction", "create /pods/binding", "get /pods/log",
		"get /configmaps", "list /configmaps", "get /secrets", "patch berth.dev/capacitymixes", "update berth.dev/resourcelimits",
		"update berth.dev/environments", "create berth.dev/databasebackups",
	},
	environments: {"create /pods", "patch /pods", "create /pods/eviction", "create /pods/binding", "get /configmaps"},
}

func TestAStolenTokenHasNoRightThatThePageExcludes(t *testing.T) {
	w := everyFeature(t)
	for _, account := range []string{console, controller, environments, records, scheduler} {
		c := as(w, account)
		for _, excluded := range slices.Concat(never[""], never[account]) {
			verb, what, _ := strings.Cut(excluded, " ")
			group, what, _ := strings.Cut(what, "/")
			resource, sub, _ := strings.Cut(what, "/")
			for _, namespace := range []string{w.Namespace, "berth-system", "kube-system"} {
				review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{
						Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: sub,
					},
				}}
				require.NoError(t, c.Create(w.Ctx, review))
				assert.False(t, review.Status.Allowed, "%s: %s in %s: %s", account, excluded, namespace, review.Status.Reason)
			}
		}
	}
}

// in places an object in a namespace, with labels in place of its own.
func in[T client.Object](namespace string, o T, labels ...string) T {
	o.SetNamespace(namespace)
	o.SetLabels(map[string]string{})
	for _, label := range labels {
		o.GetLabels()[label] = "x"
	}
	return o
}

// releases are what a release of a pod must not change, as the rest of a merge patch.
var releases = map[string]string{
	"release":           `}}`,
	"release and label": `,"labels":{"app":null,"pod-template-hash":null}}}`,
	"release and end":   `,"labels":{"pod-template-hash":null}},"spec":{"activeDeadlineSeconds":1}}`,
	"release and own":   `,"labels":{"pod-template-hash":null},"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]}}`,
}

// try writes an object in a dry run, which is what berth-controller may do with any pod: "store" creates one without.
func try(w *testenv.World, c client.Client, verb string, o client.Object) error {
	o = o.DeepCopyObject().(client.Object)
	switch verb {
	case "store":
		return c.Create(w.Ctx, o)
	case "create":
		return c.Create(w.Ctx, o, client.DryRunAll)
	case "delete":
		return c.Delete(w.Ctx, o, client.DryRunAll)
	case "label":
		return c.Patch(w.Ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"stolen":""}}}`)), client.DryRunAll)
	}
	if change, releases := releases[verb]; releases { // in one update
		mark := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%s/x"}%s`, v1alpha1.ReleasedAnnotation, o.GetUID(), change)
		return c.Patch(w.Ctx, o, client.RawPatch(types.MergePatchType, []byte(mark)), client.DryRunAll)
	}
	b := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "any"}}
	b.Annotations = map[string]string{"stolen": ""}
	return c.SubResource("binding").Create(w.Ctx, o, b, client.DryRunAll)
}

// RBAC grants these writes.
func TestPoliciesRefuseTheWritesOfAStolenToken(t *testing.T) {
	w := everyFeature(t)
	pod := builders.Pod("web", "web", builders.SchedulerName("none"))
	w.Create(pod, builders.Deployment("made", 1))
	w.Reaches("the ReplicaSet makes a pod", 1, func() int { return len(w.Live("made")) })
	made := &w.Live("made")[0]
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	token := &corev1.Secret{ObjectMeta: secret.ObjectMeta, Type: corev1.SecretTypeServiceAccountToken}
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	interruptions := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "berth-controller-interruptions"}}
	deployment := func() client.Object { return builders.Deployment("x", 1) }
	tried := sets.New("berth-environment-secrets", "berth-backup-secrets", // which are for users
		"berth-controller-evictions", "berth-controller-eviction-requests") // of an API that is off by default: mix/alpha
	for _, a := range []struct {
		account, verb string
		object        client.Object
		policy        string
	}{
		{scheduler, "label", pod, "berth-pod-updates"},
		{scheduler, "bind", pod, "berth-scheduler-bindings"},
		{scheduler, "delete", pod, "berth-scheduler-pod-deletions"},
		{controller, "label", pod, "berth-pod-updates"},
		{controller, "release and end", pod, "berth-pod-updates"},
		{controller, "release and label", made, "berth-pod-updates"},
		{controller, "release and end", made, "berth-pod-updates"},
		{controller, "release and own", made, "berth-pod-updates"},
		{scheduler, "release and end", made, "berth-pod-updates"},
		{controller, "create", in(w.Namespace, builders.PodDisruptionBudget("x")), "berth-workloads"},
		{controller, "create", in(w.Namespace, builders.PodDisruptionBudget("x"), v1alpha1.OwnerLabel), "berth-workloads"},
		{controller, "create", in(w.Namespace, builders.PodDisruptionBudget("x"), v1alpha1.EnvironmentLabel), "berth-workloads"},
		{controller, "create", in(w.Namespace, builders.PodDisruptionBudget("x"), v1alpha1.FloorLabel), "berth-controller-budgets"},
		{controller, "delete", pod, "berth-controller-pods"},
		{controller, "store", in("kube-system", builders.Pod("x", "x")), "berth-controller-pods"},
		{controller, "store", in(w.Namespace, builders.Pod("x", "x"), v1alpha1.PlaceholderLabel), "berth-controller-pods"},
		{records, "create", in(w.Namespace, deployment()), "berth-workloads"},
		{records, "create", in(w.Namespace, deployment(), v1alpha1.EnvironmentLabel), "berth-workloads"},
		{records, "create", in("kube-system", deployment(), v1alpha1.OwnerLabel), "berth-workloads"},
		{records, "create", in("berth-system", deployment(), v1alpha1.OwnerLabel), "berth-workloads"},
		{records, "create", in("berth-system", interruptions, v1alpha1.OwnerLabel), "berth-workloads"},
		{records, "create", in(w.Namespace, builders.CapacityMix("x", 50, 0)), "berth-workloads"},
		{environments, "create", in(w.Namespace, builders.CapacityMix("x", 50, 0)), "berth-workloads"},
		{environments, "delete", pod, "berth-environments-pods"},
		{environments, "delete", own, "berth-environments-namespaces"},
		{environments, "create", in(w.Namespace, secret.DeepCopy()), "berth-environments-secrets"},
		{environments, "create", in("kube-system", secret.DeepCopy(), v1alpha1.EnvironmentLabel), "berth-environments-secrets"},
		{environments, "create", in(w.Namespace, token, v1alpha1.EnvironmentLabel), "berth-environments-secrets"},
		{environments, "create", in(w.Namespace, deployment()), "berth-workloads"},
		{environments, "create", in(w.Namespace, deployment(), v1alpha1.OwnerLabel), "berth-workloads"},
		{environments, "create", in("kube-system", deployment(), v1alpha1.EnvironmentLabel), "berth-workloads"},
		{environments, "create", in("berth-system", deployment(), v1alpha1.EnvironmentLabel), "berth-workloads"},
	} {
		tried.Insert(a.policy)
		refused := func(err error) bool {
			return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+a.policy+"'")
		}
		w.Fails(fmt.Sprintf("%s refuses %s to %s a %T of %q", a.policy, a.account, a.verb, a.object, a.object.GetNamespace()), refused,
			func() error { return try(w, as(w, a.account), a.verb, a.object) })
	}
	assert.Equal(t, w.Names(&admissionregistrationv1.ValidatingAdmissionPolicyList{}, client.InNamespace(""), ofBerth), sets.List(tried))
}

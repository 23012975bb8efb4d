// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
)

// grant gives a user rights in the test's namespace.
func (s *scene) grant(user string, rules ...rbacv1.PolicyRule) {
	s.T.Helper()
	s.Create(builders.Grant("of-"+user, builders.User(user), rules...)...)
}

// Whoever may write Environments must not read Secrets by them.
func TestAnEnvironmentNamesOnlySecretsThatItsAuthorMayRead(t *testing.T) {
	s := start(t)
	environments := builders.Rule("berth.dev", []string{"environments"}, "create", "update", "patch", "get")
	secrets := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"own"}, Verbs: []string{"get"}}
	s.grant("tenant", environments)
	s.grant("reader", environments, secrets)
	env := func(database, backend string) *v1alpha1.Environment {
		e := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "shop"}}
		e.Spec.Stack = v1alpha1.ApplicationStack{
			Name: "shop", Version: "1",
			Database: &v1alpha1.DatabaseComponent{Container: v1alpha1.EnvironmentContainer{Image: "postgres:17"}, DatabaseName: "shop", Username: "shop"},
			Backend:  &v1alpha1.BackendComponent{Container: v1alpha1.EnvironmentContainer{Image: "node:22"}},
		}
		if database != "" {
			e.Spec.Stack.Database.SecretRef = &v1alpha1.EnvironmentSecret{Name: database}
		}
		if backend != "" {
			e.Spec.Stack.Backend.SecretRef = &v1alpha1.EnvironmentSecret{Name: backend}
		}
		return e
	}
	s.Eventually("the policy is in force", func() (bool, string) {
		err := s.as("tenant").Create(s.Ctx, env("", "victim-credentials"), client.DryRunAll)
		return refusedFor(err, "spec.stack.backend.secretRef.name:"), fmt.Sprint(err)
	})
	for name, tc := range map[string]struct {
		user              string
		database, backend string
		want              string
	}{
		"none":                       {"tenant", "", "", ""},
		"one that may not be read":   {"tenant", "", "victim-credentials", "spec.stack.backend.secretRef.name: tenant may not get Secret victim-credentials"},
		"a database's":               {"tenant", "victim-credentials", "", "spec.stack.database.secretRef.name: tenant may not get"},
		"one of the name of its own": {"tenant", "", "shop-credentials", "spec.stack.backend.secretRef.name:"},
		"one that may be read":       {"reader", "own", "own", ""},
		"one that may, one that not": {"reader", "own", "victim-credentials", "spec.stack.backend.secretRef.name: reader may not get"},
		"the other way":              {"reader", "victim-credentials", "own", "spec.stack.database.secretRef.name: reader may not get"},
	} {
		t.Run(name, func(t *testing.T) {
			s.judge(t, s.as(tc.user).Create(s.Ctx, env(tc.database, tc.backend), client.DryRunAll), tc.want)
		})
	}

	// A reference that another user set may stay, and may be removed.
	e := env("", "victim-credentials")
	require.NoError(t, s.Client.Create(s.Ctx, e))
	change := func(what func(*v1alpha1.Environment)) error { return patch(s, s.as("tenant"), e, what) }
	s.judge(t, change(func(e *v1alpha1.Environment) { e.Spec.Stack.Backend.Container.Image = "node:23" }), "")
	s.judge(t, change(func(e *v1alpha1.Environment) { e.Spec.Stack.Backend.SecretRef = nil }), "")
	s.judge(t, change(func(e *v1alpha1.Environment) { e.Spec.Stack.Backend.SecretRef.Name = "another" }), "spec.stack.backend.secretRef.name:")
	s.judge(t, change(func(e *v1alpha1.Environment) { e.Spec.Stack.Database.SecretRef = e.Spec.Stack.Backend.SecretRef }), "spec.stack.database.secretRef.name:")
}

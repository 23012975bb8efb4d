// SPDX-License-Identifier: Apache-2.0

package profiles_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"k8s.io/component-helpers/auth/rbac/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/clitest"
	"berth.dev/berth/test/testenv"
)

const console, controller, environments, records, scheduler = "berth-console", "berth-controller", "berth-environments", "berth-records", "berth-scheduler"

// right is a row of `kubectl auth can-i --list`, as far as the verbs, and one of its verbs.
type right struct{ row, verb string }

// everyFeature returns a world in which the rights of all features are in force.
func everyFeature(t *testing.T) *testenv.World {
	t.Helper()
	w := testenv.New(t)
	for _, pattern := range []string{"manifests/rbac/*/kustomization.yaml", "manifests/rbac/*/*/kustomization.yaml"} {
		files, err := filepath.Glob(testenv.Path(pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			require.NoError(t, w.Cluster.ApplyFiles(w.Ctx, filepath.Dir(file)))
		}
	}
	// The API server reads the objects of a kind in their order: once it has the last ones, it has all.
	last := builders.ServiceAccount("berth-system", "last")
	w.CreateForTest(builders.ClusterGrant(last.Name, last, builders.Rule("apps", []string{"deployments/scale"}, "get"))...)
	w.Create(builders.Grant(last.Name, last, builders.Rule("", []string{"pods"}, "get"))...)
	w.Eventually("the rights are in force", func() (bool, string) {
		both := rightsOf(w, last.Name, w.Namespace)
		return both.Len() == 2, table(both)
	})
	return w.UpTo(time.Minute)
}

// as returns a client with the rights of a ServiceAccount. The audit log has its requests as those of the administrator, so that
// they are not compared with the rights that the program needs.
func as(w *testenv.World, account string) client.Client {
	w.T.Helper()
	config := rest.CopyConfig(w.Cluster.Config())
	config.Impersonate.UserName = "system:serviceaccount:berth-system:" + account
	c, err := client.New(config, client.Options{Scheme: w.Client.Scheme(), Mapper: w.Client.RESTMapper()})
	require.NoError(w.T, err)
	return c
}

// rightsOf returns the rights of an account in a namespace, without those that every account has.
func rightsOf(w *testenv.World, account, namespace string) sets.Set[right] {
	w.T.Helper()
	return listed(w, account, namespace).Difference(listed(w, "unknown", namespace))
}

// listed returns what `kubectl auth can-i --list` reads.
func listed(w *testenv.World, account, namespace string) sets.Set[right] {
	w.T.Helper()
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	require.NoError(w.T, as(w, account).Create(w.Ctx, review))
	require.False(w.T, review.Status.Incomplete, review.Status.EvaluationError)
	var rules []rbacv1.PolicyRule
	for _, r := range review.Status.NonResourceRules {
		rules = append(rules, validation.BreakdownRule(rbacv1.PolicyRule{Verbs: r.Verbs, NonResourceURLs: r.NonResourceURLs})...)
	}
	for _, r := range review.Status.ResourceRules {
		rule := rbacv1.PolicyRule{Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames}
		rules = append(rules, validation.BreakdownRule(rule)...)
	}
	rights := sets.New[right]()
	for _, r := range rules {
		resource, sub, isSub := strings.Cut(strings.Join(r.Resources, ""), "/")
		resource = strings.TrimSuffix(resource+"."+strings.Join(r.APIGroups, ""), ".")
		if isSub {
			resource += "/" + sub
		}
		rights.Insert(right{row: fmt.Sprintf("%s\t%v\t%v", resource, r.NonResourceURLs, r.ResourceNames), verb: r.Verbs[0]})
	}
	return rights
}

// table prints rights as `kubectl auth can-i --list` does, sorted.
func table(rights sets.Set[right]) string {
	rows := map[string][]string{}
	for r := range rights {
		rows[r.row] = append(rows[r.row], r.verb)
	}
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(columns, "Resources\tNon-Resource URLs\tResource Names\tVerbs")
	for _, row := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(columns, "%s\t%s\n", row, slices.Sorted(slices.Values(rows[row])))
	}
	columns.Flush()
	return text.String()
}

// ofBerth selects the objects that Berth's manifests create.
var ofBerth = client.MatchingLabels{"app.kubernetes.io/part-of": "berth"}

// docs/security.md describes the accounts, and links the golden files.
func TestAStolenTokenCanDoNoMoreThanTheGoldenList(t *testing.T) {
	w := everyFeature(t)
	accounts := w.Names(&corev1.ServiceAccountList{}, client.InNamespace("berth-system"), ofBerth)
	require.Equal(t, []string{console, controller, environments, records, scheduler}, accounts)
	for _, account := range accounts {
		everywhere := rightsOf(w, account, w.Namespace)
		text := account + " in every namespace:\n\n" + table(everywhere)
		for _, namespace := range []string{"berth-system", "kube-system"} {
			text += "\nalso in " + namespace + ":\n\n" + table(rightsOf(w, account, namespace).Difference(everywhere))
		}
		clitest.Golden(t, "rights-of-"+account+".txt", text)
	}
}

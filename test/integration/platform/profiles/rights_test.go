// SPDX-License-Identifier: Apache-2.0

package profiles_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// without makes a user that has the scheduler's rights but for one resource.
func without(w *testenv.World, group, resource string) (user string) {
	w.T.Helper()
	account := builders.ServiceAccount("berth-system", "without-"+resource)
	role := testenv.ReadIn(w, "", "berth-scheduler", &rbacv1.ClusterRole{})
	var less []rbacv1.PolicyRule
	taken := false
	for _, rule := range role.Rules {
		all := len(rule.Resources)
		if rule.APIGroups[0] == group {
			rule.Resources = slices.DeleteFunc(rule.Resources, func(r string) bool { return r == resource })
		}
		taken = taken || len(rule.Resources) < all
		if len(rule.Resources) > 0 {
			less = append(less, rule)
		}
	}
	require.True(w.T, taken, "%s of %q is granted", resource, group)
	reader := builders.RoleBinding(account.Name, "extension-apiserver-authentication-reader", account)
	reader.Namespace = "kube-system"
	w.CreateForTest(append(builders.ClusterGrant(account.Name, account, less...), reader)...)
	return "system:serviceaccount:berth-system:" + account.Name
}

func TestSchedulerIsNotReadyUntilItMayListWhatItNeeds(t *testing.T) {
	w := testenv.New(t)
	for _, c := range []struct{ group, resource string }{
		{"berth.dev", "capacitymixes"},
		{"batch", "jobs"},
		{"apps", "replicasets"},
		{"", "pods"},
		{"resource.k8s.io", "deviceclasses"},
	} {
		w.Run(c.resource, func(t *testing.T, w *testenv.World) {
			o := testenv.SchedulerOptions(testenv.SecondScheduler)
			o.User, o.Name, o.NoWait = without(w, c.group, c.resource), "without-"+c.resource, true
			s := w.RunScheduler(o)
			named := c.resource
			if c.group != "" {
				named += "." + c.group
			}
			w.Eventually("the log names "+named, func() (bool, string) {
				return strings.Contains(testenv.ReadFile(t, s.LogPath()), named+" is forbidden"), s.LogTail(3)
			})
			w.Always(testenv.Short, "the scheduler is not ready", func() (bool, string) {
				_, err := s.Get(w.Ctx, "/readyz")
				return err != nil, "ready"
			})
			testenv.Patch(w, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "without-" + c.resource}}, func(r *rbacv1.ClusterRole) {
				r.Rules = append(r.Rules, builders.Rule(c.group, []string{c.resource}, "list", "watch"))
			})
			require.NoError(t, s.WaitReady(w.Ctx))
		})
	}
}

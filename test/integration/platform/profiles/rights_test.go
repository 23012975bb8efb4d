// SPDX-License-Identifier: Apache-2.0

package profiles_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/test/testenv"
)

// without makes a user that has the scheduler's rights but for one resource.
func without(w *testenv.World, group, resource string) (user string) {
	w.T.Helper()
	name := "without-" + resource
	user = "system:serviceaccount:berth-system:" + name
	roles, bindings := w.Kube.RbacV1().ClusterRoles(), w.Kube.RbacV1().ClusterRoleBindings()
	role, err := roles.Get(w.Ctx, "berth-scheduler", metav1.GetOptions{})
	require.NoError(w.T, err)
	less := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
	taken := false
	for _, rule := range role.Rules {
		var kept []string
		for _, r := range rule.Resources {
			if r == resource && rule.APIGroups[0] == group {
				taken = true
				continue
			}
			kept = append(kept, r)
		}
		if len(kept) > 0 {
			rule.Resources = kept
			less.Rules = append(less.Rules, rule)
		}
	}
	require.True(w.T, taken, "%s of %q is granted", resource, group)
	_, err = roles.Create(w.Ctx, less, metav1.CreateOptions{})
	require.NoError(w.T, err)
	w.T.Cleanup(func() { _ = roles.Delete(w.Ctx, name, metav1.DeleteOptions{}) })
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "berth-system", Name: name}}
	_, err = bindings.Create(w.Ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}, metav1.CreateOptions{})
	require.NoError(w.T, err)
	w.T.Cleanup(func() { _ = bindings.Delete(w.Ctx, name, metav1.DeleteOptions{}) })
	_, err = w.Kube.RbacV1().RoleBindings("kube-system").Create(w.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "extension-apiserver-authentication-reader"},
	}, metav1.CreateOptions{})
	require.NoError(w.T, err)
	w.T.Cleanup(func() { _ = w.Kube.RbacV1().RoleBindings("kube-system").Delete(w.Ctx, name, metav1.DeleteOptions{}) })
	return user
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
				b, err := os.ReadFile(s.LogPath())
				require.NoError(t, err)
				return strings.Contains(string(b), named+" is forbidden"), s.LogTail(3)
			})
			w.Always(testenv.Short, "the scheduler is not ready", func() (bool, string) {
				_, err := s.Get(w.Ctx, "/readyz")
				return err != nil, "ready"
			})
			testenv.Patch(w, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "without-" + c.resource}}, func(r *rbacv1.ClusterRole) {
				r.Rules = append(r.Rules, rbacv1.PolicyRule{APIGroups: []string{c.group}, Resources: []string{c.resource}, Verbs: []string{"list", "watch"}})
			})
			require.NoError(t, s.WaitReady(w.Ctx))
		})
	}
}

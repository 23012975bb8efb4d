// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"crypto/tls"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Right is what RBAC has to grant for a request, as verb group/resource.
func (r Request) Right() string { return r.Verb + " " + r.Group + "/" + r.Resource }

// Grants returns what the roles of one of Berth's programs grant: its
// ClusterRole, and its Role in berth-system, as verb group/resource.
func (w *World) Grants(program string) map[string]bool {
	w.T.Helper()
	role, err := w.Kube.RbacV1().ClusterRoles().Get(w.Ctx, program, metav1.GetOptions{})
	require.NoError(w.T, err)
	lease, err := w.Kube.RbacV1().Roles("berth-system").Get(w.Ctx, program, metav1.GetOptions{})
	require.NoError(w.T, err)
	return RightsOf(slices.Concat(role.Rules, lease.Rules))
}

// RightsOf returns what rules grant, as verb group/resource.
func RightsOf(rules []rbacv1.PolicyRule) map[string]bool {
	granted := map[string]bool{}
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					granted[Request{Verb: verb, Group: group, Resource: resource}.Right()] = true
				}
			}
		}
	}
	return granted
}

// RightsUsedBy returns the rights that a user has used in the whole run, and of
// those that it was refused the last request.
func (w *World) RightsUsedBy(user string) (used map[string]bool, refused map[string]Request) {
	w.T.Helper()
	used, refused = map[string]bool{}, map[string]Request{}
	for _, r := range w.AuditAll(func(r Request) bool { return r.User == user }) {
		if r.Code == http.StatusForbidden {
			refused[r.Right()] = r
		} else {
			used[r.Right()] = true
		}
	}
	return used, refused
}

// LeaveOutApplied takes the rights to create what may be patched too out of those that are granted: who applies what is not
// there yet must be allowed to create it, and the request is a patch.
func LeaveOutApplied(granted map[string]bool) {
	maps.DeleteFunc(granted, func(right string, _ bool) bool {
		what, creates := strings.CutPrefix(right, "create ")
		return creates && granted["patch "+what]
	})
}

// Unused returns the granted rights that are neither used nor explained, in order.
func Unused(granted, used map[string]bool, explained map[string]string) (rights []string) {
	for right := range granted {
		if !used[right] && explained[right] == "" {
			rights = append(rights, right)
		}
	}
	slices.Sort(rights)
	return rights
}

// ReadMetricsAsSomebody asks a program at a URL for its metrics with a token,
// which it has to have reviewed. Nobody may read them without being allowed to.
func (w *World) ReadMetricsAsSomebody(url string) {
	w.T.Helper()
	token, err := w.Kube.CoreV1().ServiceAccounts(w.Namespace).CreateToken(w.Ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(w.T, err)
	req, err := http.NewRequestWithContext(w.Ctx, http.MethodGet, url+"/metrics", http.NoBody)
	require.NoError(w.T, err)
	req.Header.Set("Authorization", "Bearer "+token.Status.Token)
	anyone := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	resp, err := anyone.Do(req)
	require.NoError(w.T, err)
	resp.Body.Close()
	assert.Equal(w.T, http.StatusForbidden, resp.StatusCode, "a token that is known and has no rights")
}

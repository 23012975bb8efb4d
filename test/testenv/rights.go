// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"crypto/tls"
	"net/http"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Right is what RBAC has to grant for a request, as verb group/resource.
func (r Request) Right() string { return r.Verb + " " + r.Group + "/" + r.Resource }

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
	used, refused, err := rightsUsed(func(r Request) bool { return r.User == user })
	require.NoError(w.T, err)
	return used, refused
}

// Token returns one of a service account of the test's namespace.
func (w *World) Token(serviceAccount string) string {
	w.T.Helper()
	request := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: serviceAccount}}
	require.NoError(w.T, w.Client.SubResource("token").Create(w.Ctx, account, request))
	return request.Status.Token
}

// ReadMetricsAsSomebody asks a program at a URL for its metrics with a token,
// which it has to have reviewed. No one may read them without being allowed to.
func (w *World) ReadMetricsAsSomebody(url string) {
	w.T.Helper()
	req, err := http.NewRequestWithContext(w.Ctx, http.MethodGet, url+"/metrics", http.NoBody)
	require.NoError(w.T, err)
	req.Header.Set("Authorization", "Bearer "+w.Token("default"))
	anyone := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	resp, err := anyone.Do(req)
	require.NoError(w.T, err)
	resp.Body.Close()
	assert.Equal(w.T, http.StatusForbidden, resp.StatusCode, "a token that is known and has no rights")
}

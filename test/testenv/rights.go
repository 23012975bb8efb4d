// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Right is what RBAC has to grant for a request, as verb group/resource.
func (r Request) Right() string { return r.Verb + " " + r.Group + "/" + r.Resource }

// Rights are Right, and for a watch that begins with a list the right to list: where the API server cannot stream, the client
// lists.
func (r Request) Rights() []string {
	if !r.Streams {
		return []string{r.Right()}
	}
	list := r
	list.Verb = "list"
	return []string{r.Right(), list.Right()}
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

// RightsUsedBy returns the rights that a user has used in the whole run. What it was refused is a question about one test: RefusedHere.
func (w *World) RightsUsedBy(user string) (used map[string]bool) {
	w.T.Helper()
	used, _, err := rightsUsed(w.Ctx, func(r Request) bool { return r.User == user })
	require.NoError(w.T, err)
	return used
}

// RefusedHere returns, of the rights that a user was refused since the test began, the last request: in the namespace of the test, in
// berth-system and in others that it names, and for what is in no namespace. Other tests of the package write as that user what has to
// be refused.
func (w *World) RefusedHere(user string, others ...string) map[string]Request {
	w.T.Helper()
	namespaces := append([]string{w.Namespace, "berth-system", ""}, others...)
	_, refused, err := rightsUsed(w.Ctx, func(r Request) bool {
		return r.User == user && !r.At.Before(w.began) && slices.Contains(namespaces, r.Namespace)
	})
	require.NoError(w.T, err)
	return refused
}

// Token returns one of a service account of the test's namespace.
func (w *World) Token(serviceAccount string) string {
	w.T.Helper()
	request := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: serviceAccount}}
	require.NoError(w.T, w.Client.SubResource("token").Create(w.Ctx, account, request))
	return request.Status.Token
}

// ReadMetricsAsSomebody reads the metrics of a program at a URL with a token,
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

// Rights compares, after all tests of a package, the rights that roles grant with those that a user has used: every granted right
// is used or explained, and none is missing. It is checked only if all tests of the package ran and passed.
type Rights struct {
	// User is whose requests count.
	User string
	// ClusterRoles, and Roles of berth-system, grant the rights.
	ClusterRoles, Roles []string
	// NeverUsed are granted rights that the tests do not use, and SometimesUsed those that they use by chance, with the reason for
	// which they are granted.
	NeverUsed, SometimesUsed map[string]string
	// Applied is set where objects are created by server-side apply. That needs the right to create, and the request is a patch.
	Applied bool
	// NoneRefused is set where no request may be refused. Otherwise a refused request is an error only if its right was never used
	// with success: an API server that has just started has no roles yet, and a namespace that is being deleted takes no events.
	NoneRefused bool
	// Counts limits the comparison to some rights, and to requests for them. Then no other right may be used among these. Empty: all.
	Counts func(right string, r *Request) bool
}

// rightsTimeout is how long the audit log may lag behind.
const rightsTimeout = 3 * time.Minute

// wholePackage reports whether the flags of go test let all tests of the package run.
func wholePackage() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return false
		}
	}
	return true
}

// checkRights returns what is wrong with the rights of a package, once that does not change any more.
func checkRights(ctx context.Context, all []Rights) error {
	var problems error
	err := wait.PollUntilContextTimeout(ctx, time.Second, rightsTimeout, true, func(ctx context.Context) (bool, error) {
		var found error
		for i := range all {
			found = errors.Join(found, all[i].check(ctx))
		}
		if ctx.Err() == nil || problems == nil { // the last comparison may have been interrupted
			problems = found
		}
		return found == nil, nil
	})
	return errors.Join(problems, context.Cause(ctx), ignoreTimeout(err))
}

func ignoreTimeout(err error) error {
	if wait.Interrupted(err) {
		return nil
	}
	return err
}

func (r *Rights) check(ctx context.Context) error {
	granted, err := r.granted(ctx)
	if err != nil {
		return err
	}
	used, refused, err := rightsUsed(ctx, func(q Request) bool { return q.User == r.User && (r.Counts == nil || r.Counts(q.Right(), &q)) })
	if err != nil {
		return err
	}
	return errors.Join(r.compare(granted, used, refused)...)
}

// compare returns what is wrong.
func (r *Rights) compare(granted, used map[string]bool, refused map[string]Request) (problems []error) {
	report := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("rights of %s: "+format, append([]any{r.User}, args...)...))
	}
	for _, right := range slices.Sorted(maps.Keys(granted)) {
		switch {
		case used[right] && r.NeverUsed[right] != "":
			report("%q is used and explained as never used", right)
		case !used[right] && !r.explains(right):
			report("%q is granted and not used", right)
		}
	}
	for _, right := range slices.Sorted(maps.Keys(r.explained())) {
		if !granted[right] {
			report("%q is explained and not granted", right)
		}
	}
	return append(problems, r.missing(granted, used, refused)...)
}

// missing returns what is wrong with the rights that are not granted.
func (r *Rights) missing(granted, used map[string]bool, refused map[string]Request) (problems []error) {
	for _, right := range slices.Sorted(maps.Keys(refused)) {
		if r.NoneRefused || !used[right] {
			problems = append(problems, fmt.Errorf("rights of %s: a request was refused: %s", r.User, refused[right]))
		}
	}
	for _, right := range slices.Sorted(maps.Keys(used)) {
		if r.Counts != nil && !granted[right] {
			problems = append(problems, fmt.Errorf("rights of %s: %q is used and not granted", r.User, right))
		}
	}
	return problems
}

func (r *Rights) explained() map[string]string {
	all := maps.Clone(r.SometimesUsed)
	if all == nil {
		return r.NeverUsed
	}
	maps.Copy(all, r.NeverUsed)
	return all
}

func (r *Rights) explains(right string) bool { return r.explained()[right] != "" }

func (r *Rights) granted(ctx context.Context) (map[string]bool, error) {
	var rules []rbacv1.PolicyRule
	for _, name := range r.ClusterRoles {
		role, err := shared.kube.RbacV1().ClusterRoles().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		rules = append(rules, role.Rules...)
	}
	for _, name := range r.Roles {
		role, err := shared.kube.RbacV1().Roles("berth-system").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		rules = append(rules, role.Rules...)
	}
	granted := RightsOf(rules)
	maps.DeleteFunc(granted, func(right string, _ bool) bool {
		what, creates := strings.CutPrefix(right, "create ")
		return r.Applied && creates && granted["patch "+what] || r.Counts != nil && !r.Counts(right, nil)
	})
	return granted, nil
}

// rightsUsed returns the rights of the requests that match and, of those that were refused, the last request.
func rightsUsed(ctx context.Context, match func(Request) bool) (used map[string]bool, refused map[string]Request, err error) {
	list, err := requests(ctx, match)
	used, refused = map[string]bool{}, map[string]Request{}
	for _, r := range list {
		if r.Code == http.StatusForbidden {
			refused[r.Right()] = r
			continue
		}
		for _, right := range r.Rights() {
			used[right] = true
		}
	}
	return used, refused, err
}

// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	clocktesting "k8s.io/utils/clock/testing"
)

// byHeader authenticates the user that a header names.
func byHeader(r *http.Request) (*authenticator.Response, bool, error) {
	switch name := r.Header.Get("X-User"); name {
	case "":
		return nil, false, nil
	case "expired":
		return nil, false, errors.New("the token is expired")
	default:
		return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, true, nil
	}
}

// rights allows jane to get the pods of shop, and root everything. It remembers what it was called with.
type rights struct {
	calls []authorizer.AttributesRecord
	err   error
}

func (r *rights) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	record, _ := a.(authorizer.AttributesRecord)
	r.calls = append(r.calls, record)
	name := a.GetUser().GetName()
	pods := a.GetVerb() == "get" && a.GetResource() == "pods" && a.GetAPIGroup() == "" && a.GetSubresource() == "" && a.IsResourceRequest()
	if name == "root" || name == "jane" && pods && a.GetNamespace() == "shop" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", r.err
}

func storeOf(records ...*Record) *Store {
	s := NewStore(clocktesting.NewFakePassiveClock(began))
	for _, r := range records {
		s.Put(r, time.Hour)
	}
	return s
}

func request(t *testing.T, s *Store, authorize *rights, as, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.Header.Set("X-User", as)
	w := httptest.NewRecorder()
	Handler(s, authenticator.RequestFunc(byHeader), authorize).ServeHTTP(w, r)
	assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	return w
}

func TestRecordsAreServedToWhoMayGetThePod(t *testing.T) {
	s := storeOf(&Record{Namespace: "shop", Pod: "web-0", ID: "1"}, &Record{Namespace: "shop", Pod: "web-0", ID: "2"}, &Record{Namespace: "shop", Pod: "web-1", ID: "3"})
	authorize := &rights{}
	w := request(t, s, authorize, "jane", http.MethodGet, Path("shop", "web-0"))
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var list List
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &list))
	require.Len(t, list.Items, 2)
	assert.Equal(t, "2", list.Items[0].ID, "newest first")
	require.Len(t, authorize.calls, 1)
	assert.Equal(t, "web-0", authorize.calls[0].Name)
	assert.Equal(t, "v1", authorize.calls[0].APIVersion)
}

func TestRequestsThatAreNotAnswered(t *testing.T) {
	s := storeOf(&Record{Namespace: "shop", Pod: "web-0", ID: "1"}, &Record{Namespace: "bank", Pod: "vault-0", ID: "1"})
	for name, c := range map[string]struct {
		as, method, path string
		status           int
		message          string
	}{
		"without credentials":          {"", "GET", Path("shop", "web-0"), 401, "missing or invalid credentials"},
		"with an expired token":        {"expired", "GET", Path("shop", "web-0"), 401, "missing or invalid credentials"},
		"anonymous":                    {user.Anonymous, "GET", Path("shop", "web-0"), 401, "missing or invalid credentials"},
		"of another namespace":         {"jane", "GET", Path("bank", "vault-0"), 403, `user "jane" cannot get pod "vault-0" in namespace "bank"`},
		"a pod without a record":       {"jane", "GET", Path("shop", "web-1"), 404, "no scheduling attempt of pod shop/web-1 is recorded"},
		"another method":               {"root", "POST", Path("shop", "web-0"), 405, "Method Not Allowed"},
		"a deletion":                   {"root", "DELETE", Path("shop", "web-0"), 405, "Method Not Allowed"},
		"all pods of a namespace":      {"root", "GET", "/decisions/v1/namespaces/shop/pods", 404, "404 page not found"},
		"no pod":                       {"root", "GET", Path("shop", ""), 404, "404 page not found"},
		"more than a pod":              {"root", "GET", Path("shop", "web-0") + "/log", 404, "404 page not found"},
		"another path":                 {"root", "GET", "/metrics", 404, "404 page not found"},
		"a name that no pod can have":  {"root", "GET", Path("shop", strings.Repeat("x", 1000)), 400, "too long"},
		"a name of several namespaces": {"jane", "GET", Path("shop%2Fpods%2Fweb-0%2F..%2F..%2Fbank", "vault-0"), 403, "cannot get"},
	} {
		t.Run(name, func(t *testing.T) {
			w := request(t, s, &rights{}, c.as, c.method, c.path)
			assert.Equal(t, c.status, w.Code)
			assert.Contains(t, w.Body.String(), c.message)
			assert.NotContains(t, w.Body.String(), `"id"`)
		})
	}
}

// The answer must not depend on the store: even whether a pod was ever scheduled is for those who may get it.
func TestWithoutTheRightARecordCannotBeGuessed(t *testing.T) {
	s := storeOf(&Record{Namespace: "bank", Pod: "vault-0", ID: "1"})
	for _, as := range []string{"", "jane"} {
		there, missing := request(t, s, &rights{}, as, "GET", Path("bank", "vault-0")), request(t, NewStore(clocktesting.NewFakePassiveClock(began)), &rights{}, as, "GET", Path("bank", "vault-0"))
		assert.Equal(t, missing.Code, there.Code)
		assert.Equal(t, missing.Body.String(), there.Body.String())
		assert.NotEqual(t, http.StatusNotFound, there.Code)
	}
	w := request(t, s, &rights{err: errors.New("connection refused by 10.0.0.1")}, "jane", "GET", Path("bank", "vault-0"))
	assert.Equal(t, http.StatusInternalServerError, w.Code)
	assert.Equal(t, "the API server could not authorize the request, try again later\n", w.Body.String(), "the error is for the log")
}

func TestARecordThatJSONCannotHaveIsAnError(t *testing.T) {
	s := storeOf(&Record{Namespace: "shop", Pod: "web-0", ID: "1", Candidates: []Candidate{{Node: "a", Score: math.NaN()}}})
	w := request(t, s, &rights{}, "jane", "GET", Path("shop", "web-0"))
	assert.Equal(t, http.StatusInternalServerError, w.Code)
	assert.Contains(t, w.Body.String(), "NaN")
}

func TestAResponseIsBounded(t *testing.T) {
	s := NewStore(clocktesting.NewFakePassiveClock(began))
	for i := range 100 {
		s.Put(largest("shop", "web-0", i), time.Hour)
	}
	w := request(t, s, &rights{}, "jane", "GET", Path("shop", "web-0"))
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Less(t, w.Body.Len(), MaxResponse)
}

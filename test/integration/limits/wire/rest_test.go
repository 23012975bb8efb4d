// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/testenv"
)

type answer struct {
	status int
	header http.Header
	body   string
	proto  string
}

// httpClient speaks HTTP/1.1, or HTTP/2 without TLS.
func httpClient(h2 bool) *http.Client {
	var p http.Protocols
	p.SetHTTP1(!h2)
	p.SetUnencryptedHTTP2(h2)
	return &http.Client{Transport: &http.Transport{Protocols: &p, DialContext: func(ctx context.Context, n, a string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, n, a)
	}}}
}

// rest makes a REST call below the list of limits of the test's namespace.
func (s *scene) rest(token, method, path, body string, headers ...string) answer {
	s.T.Helper()
	return s.do(httpClient(false), token, method, "/namespaces/"+s.Namespace+"/resource-limits"+path, body, headers...)
}

func (s *scene) do(c *http.Client, token, method, path, body string, headers ...string) answer {
	s.T.Helper()
	scheme := "http://"
	if s.TLS != nil {
		scheme = "https://"
	}
	req, err := http.NewRequestWithContext(s.Ctx, method, scheme+s.Address+path, strings.NewReader(body))
	require.NoError(s.T, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(req)
	require.NoError(s.T, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(s.T, err)
	return answer{resp.StatusCode, resp.Header, string(b), resp.Proto}
}

// refuses demands an error of the REST API.
func (a answer) refuses(t *testing.T, status int, code, field string) {
	t.Helper()
	require.Equal(t, status, a.status, a.body)
	var e struct {
		Code, Message string
		Details       []struct{ Field, Description string }
	}
	require.NoError(t, json.Unmarshal([]byte(a.body), &e), a.body)
	assert.Equal(t, code, e.Code)
	assert.NotEmpty(t, e.Message)
	assert.NotRegexp(t, servicetest.Unreadable, a.body)
	if field == "" {
		return
	}
	var fields []string
	for _, d := range e.Details {
		fields = append(fields, d.Field)
	}
	assert.Contains(t, fields, field, a.body)
}

const rules = `"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"gpu","operator":"Exists"}]}]}`

func limitJSON(name, affinity string) string {
	return fmt.Sprintf(`{"name":%q,"description":"small","limits":{"cpu":"500m","memory":"1Gi","cpuLimit":"1",`+
		`"volumes":{"data":{"size":"1Gi","storageClass":"fast"}},"nodeSelector":{"disktype":"ssd"},"nodeAffinity":%s}}`, name, affinity)
}

func TestRESTAcceptsBodiesWithAndWithoutTheInnerWrapper(t *testing.T) {
	s := serve(t)
	want := `"limits":{"cpu":"500m","memory":"1Gi","cpuLimit":"1","volumes":{"data":{"size":"1Gi","storageClass":"fast"}},` +
		`"nodeSelector":{"disktype":"ssd"},"nodeAffinity":{` + rules + `}}`
	for name, affinity := range map[string]string{"bare": "{" + rules + "}", "wrapped": `{"nodeAffinity":{` + rules + `}}`} {
		created := s.rest(s.Editor, http.MethodPost, "", limitJSON(name, affinity))
		require.Equal(t, http.StatusCreated, created.status, created.body)
		assert.Equal(t, "/namespaces/"+s.Namespace+"/resource-limits/"+name, created.header.Get("Location"))
		assert.Equal(t, "application/json", created.header.Get("Content-Type"))
		got := s.rest(s.Viewer, http.MethodGet, "/"+name, "")
		require.Equal(t, http.StatusOK, got.status)
		assert.Equal(t, created.body, got.body)
		assert.Contains(t, got.body, want)
		assert.Contains(t, got.body, `"createdAt":"2`)
	}
	// An answer can be sent back, changed.
	got := s.rest(s.Viewer, http.MethodGet, "/bare", "").body
	changed := s.rest(s.Editor, http.MethodPut, "/bare", strings.Replace(got, `"cpu":"500m"`, `"cpu":"600m"`, 1))
	require.Equal(t, http.StatusOK, changed.status, changed.body)
	assert.Contains(t, changed.body, `"cpu":"600m"`)
	assert.Equal(t, "600m", s.stored("bare").Spec.CPU.String())

	// HTTP/2 serves the same, beside gRPC.
	h2 := s.do(httpClient(true), s.Viewer, http.MethodGet, "/namespaces/"+s.Namespace+"/resource-limits/wrapped", "")
	assert.Equal(t, "HTTP/2.0", h2.proto)
	assert.Equal(t, http.StatusOK, h2.status)

	list := s.rest(s.Viewer, http.MethodGet, "?first=1", "")
	var page struct {
		Data        []struct{ Name string }
		EndCursor   string
		HasNextPage bool
	}
	require.NoError(t, json.Unmarshal([]byte(list.body), &page))
	require.Len(t, page.Data, 1)
	assert.True(t, page.HasNextPage)
	assert.Equal(t, "bare", page.Data[0].Name)
	deleted := s.rest(s.Editor, http.MethodDelete, "/bare", "")
	assert.Equal(t, http.StatusOK, deleted.status, deleted.body)
	testenv.Becomes(s.World, "it is gone", http.StatusNotFound, func() int { return s.rest(s.Viewer, http.MethodGet, "/bare", "").status })
	s.rest(s.Viewer, http.MethodGet, "/bare", "").refuses(t, http.StatusNotFound, "NOT_FOUND", "")
}

func TestRESTRefusesByName(t *testing.T) {
	s := serve(t, smallRequests)
	for name, tc := range map[string]struct {
		method, path, body string
		status             int
		code, field        string
	}{
		"an unknown key":                  {"POST", "", `{"name":"x","limits":{},"colour":"red"}`, 400, "INVALID_ARGUMENT", "colour"},
		"an unknown key within":           {"POST", "", `{"name":"x","limits":{"cpus":"1"}}`, 400, "INVALID_ARGUMENT", "limits.cpus"},
		"a key in snake case":             {"POST", "", `{"name":"x","limits":{"node_selector":{}}}`, 400, "INVALID_ARGUMENT", "limits.node_selector"},
		"a key twice":                     {"POST", "", `{"name":"x","name":"y","limits":{}}`, 400, "INVALID_ARGUMENT", "name"},
		"a number for a string":           {"POST", "", `{"name":"x","limits":{"cpu":1}}`, 400, "INVALID_ARGUMENT", "limits.cpu"},
		"a list for an object":            {"POST", "", `[]`, 400, "INVALID_ARGUMENT", "body"},
		"no limits":                       {"POST", "", `{"name":"x"}`, 400, "INVALID_ARGUMENT", "limits"},
		"a body that is cut off":          {"POST", "", `{"name":"x","limits":{"cpu":"1"`, 400, "INVALID_ARGUMENT", "body"},
		"a body that is too large":        {"POST", "", `{"name":"` + strings.Repeat("x", 5000) + `"}`, 413, "INVALID_ARGUMENT", "body"},
		"a name that cannot be":           {"POST", "", limitJSON("No Name", "null"), 400, "INVALID_ARGUMENT", "name"},
		"a quantity that is none":         {"POST", "", `{"name":"x","limits":{"cpu":"much"}}`, 400, "INVALID_ARGUMENT", "limits.cpu"},
		"a limit below the request":       {"POST", "", `{"name":"x","limits":{"cpu":"2","cpuLimit":"1"}}`, 400, "INVALID_ARGUMENT", "limits.cpuLimit"},
		"an affinity for pods":            {"POST", "", limitJSON("x", `{"podAffinity":{}}`), 400, "INVALID_ARGUMENT", "limits.nodeAffinity.podAffinity"},
		"an unknown key of an affinity":   {"POST", "", limitJSON("x", `{"nodeAffinity":{"required":{}}}`), 400, "INVALID_ARGUMENT", "limits.nodeAffinity.nodeAffinity.required"},
		"two names":                       {"PUT", "/x", `{"name":"y","limits":{}}`, 400, "INVALID_ARGUMENT", "name"},
		"an update of what is not there":  {"PUT", "/x", `{"limits":{"cpu":"1"}}`, 404, "NOT_FOUND", ""},
		"a name in the path that is none": {"GET", "/No%20Name", "", 400, "INVALID_ARGUMENT", "name"},
		"a slash in a name":               {"GET", "/a%2Fstatus", "", 400, "INVALID_ARGUMENT", "name"},
		"an unknown parameter":            {"GET", "?limit=5", "", 400, "INVALID_ARGUMENT", "limit"},
		"a page of no size":               {"GET", "?first=0", "", 400, "INVALID_ARGUMENT", "first"},
		"a size that is no number":        {"GET", "?first=ten", "", 400, "INVALID_ARGUMENT", "first"},
		"a cursor that is none":           {"GET", "?after=x", "", 400, "INVALID_ARGUMENT", "after"},
		"a selector that is none":         {"GET", "?labelSelector=a+b+c", "", 400, "INVALID_ARGUMENT", "labelSelector"},
		"force that is neither":           {"DELETE", "/x?force=very", "", 400, "INVALID_ARGUMENT", "force"},
		"a method that is not there":      {"PATCH", "/x", `{}`, 405, "UNIMPLEMENTED", ""},
		"a path that is not there":        {"GET", "/x/y", "", 404, "NOT_FOUND", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s.rest(s.Editor, tc.method, tc.path, tc.body).refuses(t, tc.status, tc.code, tc.field)
		})
	}
	// What there is instead is in the message.
	for message, a := range map[string]answer{
		"limit: is an unknown parameter, must be one of first, after, labelSelector":                    s.rest(s.Editor, "GET", "?limit=5", ""),
		"limit: is an unknown parameter, must be absent: this request has none":                         s.rest(s.Editor, "GET", "/x?limit=5", ""),
		"method PATCH is not allowed, must be one of DELETE, GET, PUT":                                  s.rest(s.Editor, "PATCH", "/x", `{}`),
		"colour: unknown field, must be one of createdAt, deletedAt, description, labels, limits, name": s.rest(s.Editor, "POST", "", `{"colour":"red"}`),
		"labels: has the JSON type array, must be object":                                               s.rest(s.Editor, "POST", "", `{"name":"x","labels":[],"limits":{}}`),
		"limits.nodeAffinity: has the JSON type array, must be object":                                  s.rest(s.Editor, "POST", "", limitJSON("x", "[]")),
		"name: must be at most 63 characters, so that it is a valid label value":                        s.rest(s.Editor, "POST", "", limitJSON(strings.Repeat("x", 64), "null")),
	} {
		assert.Contains(t, a.body, message)
	}
	plain := s.rest(s.Editor, "POST", "", `{"name":"x","limits":{}}`, "Content-Type", "text/plain")
	plain.refuses(t, http.StatusUnsupportedMediaType, "INVALID_ARGUMENT", "")
	assert.Zero(t, s.count())
}

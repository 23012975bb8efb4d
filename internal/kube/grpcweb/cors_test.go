// SPDX-License-Identifier: Apache-2.0

package grpcweb

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const page = "https://ui.example"

func origins(t *testing.T, allowed ...string) *Origins {
	t.Helper()
	o, err := NewOrigins(allowed)
	require.NoError(t, err)
	return o
}

func preflight(o *Origins, origin, method, headers string) http.Header {
	r := httptest.NewRequest(http.MethodOptions, "/test.Service/Call", http.NoBody)
	r.Header.Set("Origin", origin)
	r.Header.Set("Access-Control-Request-Method", method)
	r.Header.Set("Access-Control-Request-Headers", headers)
	rec := httptest.NewRecorder()
	o.Preflight(rec, r)
	return rec.Header()
}

func TestPreflights(t *testing.T) {
	const headers = "authorization,berth-namespace,content-type,grpc-timeout,x-grpc-web,x-user-agent"
	for name, tc := range map[string]struct {
		allowed                       []string
		origin, method, headers, want string
	}{
		"an allowed origin":     {[]string{"https://other.example", page}, page, "POST", headers, page},
		"all origins":           {[]string{"*"}, page, "POST", headers, "*"},
		"REST":                  {[]string{page}, page, "DELETE", "authorization", page},
		"another origin":        {[]string{page}, "https://ui.example.evil.example", "POST", headers, ""},
		"another port":          {[]string{page}, page + ":8443", "POST", headers, ""},
		"another scheme":        {[]string{page}, "http://ui.example", "POST", headers, ""},
		"an origin of no page":  {[]string{page}, "null", "POST", headers, ""},
		"no origins":            {nil, page, "POST", headers, ""},
		"no method of ours":     {[]string{page}, page, "TRACE", headers, ""},
		"headers of other APIs": {[]string{page}, page, "POST", "impersonate-user", ""},
	} {
		h := preflight(origins(t, tc.allowed...), tc.origin, tc.method, tc.headers)
		assert.Equal(t, tc.want, h.Get("Access-Control-Allow-Origin"), name)
		assert.Contains(t, h.Get("Vary"), "Origin", name)
		assert.NotContains(t, h, "Access-Control-Allow-Credentials", name)
		if tc.want != "" {
			assert.Equal(t, tc.method, h.Get("Access-Control-Allow-Methods"), name)
			assert.Equal(t, tc.headers, h.Get("Access-Control-Allow-Headers"), name)
			assert.Equal(t, "600", h.Get("Access-Control-Max-Age"), name)
		}
	}
}

func TestCallsOfPages(t *testing.T) {
	for name, tc := range map[string]struct {
		allowed            []string
		origin, site, want string
		may                bool
	}{
		"no browser":                             {[]string{page}, "", "", "", true},
		"an allowed origin":                      {[]string{page}, page, "cross-site", page, true},
		"all origins":                            {[]string{"*"}, page, "cross-site", "*", true},
		"another origin":                         {[]string{page}, "https://evil.example", "cross-site", "", false},
		"another origin, without fetch metadata": {[]string{page}, "https://evil.example", "", "", false},
		"the origin of the server":               {nil, "https://berth.example", "", "", true},
		"the origin of a proxy before it":        {nil, "https://proxy.example", "same-origin", "", true},
		"no origins":                             {nil, page, "cross-site", "", false},
	} {
		r := httptest.NewRequest(http.MethodPost, "https://berth.example/test.Service/Call", http.NoBody)
		if tc.origin != "" {
			r.Header.Set("Origin", tc.origin)
		}
		if tc.site != "" {
			r.Header.Set("Sec-Fetch-Site", tc.site)
		}
		rec := httptest.NewRecorder()
		assert.Equal(t, tc.may, origins(t, tc.allowed...).Call(rec, r), name)
		h := rec.Header()
		assert.Equal(t, tc.want, h.Get("Access-Control-Allow-Origin"), name)
		assert.Equal(t, "Origin", h.Get("Vary"), name)
		if tc.want != "" {
			for _, exposed := range []string{"Grpc-Status", "Grpc-Message", "Grpc-Status-Details-Bin"} {
				assert.Contains(t, h.Get("Access-Control-Expose-Headers"), exposed, name)
			}
		}
	}
}

func TestPatternsAreNoOrigins(t *testing.T) {
	for _, wrong := range [][]string{{"https://*.example"}, {"*", page}, {page, "*"}, {"ui.example"}, {page + "/path"}} {
		_, err := NewOrigins(wrong)
		require.ErrorContains(t, err, "origin", "%v", wrong)
	}
}

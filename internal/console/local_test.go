// SPDX-License-Identifier: Apache-2.0

package console

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOnlyTheBrowserWithTheURLIsLetIn(t *testing.T) {
	_, c := start(t, overviewOf())
	l := NewLocal(c, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8500})
	do := func(method, at string, change ...func(*http.Request)) *http.Response {
		r := httptest.NewRequestWithContext(t.Context(), method, at, http.NoBody)
		for _, f := range change {
			f(r)
		}
		w := httptest.NewRecorder()
		l.ServeHTTP(w, r)
		return w.Result()
	}
	const home = "http://127.0.0.1:8500/"
	assert.Equal(t, http.StatusUnauthorized, do(http.MethodGet, home).StatusCode)
	assert.Equal(t, http.StatusUnauthorized, do(http.MethodGet, home+"stream?page=/").StatusCode)
	assert.Equal(t, http.StatusUnauthorized, do(http.MethodGet, home+"login?token=").StatusCode)
	assert.Equal(t, http.StatusUnauthorized, do(http.MethodGet, home+"login?token="+l.session).StatusCode)
	assert.Equal(t, http.StatusUnauthorized, do(http.MethodPost, l.URL()).StatusCode)

	response := do(http.MethodGet, l.URL())
	require.Equal(t, http.StatusSeeOther, response.StatusCode)
	require.Len(t, response.Cookies(), 1)
	cookie := response.Cookies()[0]
	assert.True(t, cookie.HttpOnly && cookie.Secure && cookie.SameSite == http.SameSiteStrictMode)
	assert.NotContains(t, l.URL(), cookie.Value, "the URL is no cookie")
	known := func(r *http.Request) { r.AddCookie(cookie) }
	assert.Equal(t, http.StatusOK, do(http.MethodGet, home, known).StatusCode)
	assert.Equal(t, http.StatusOK, do(http.MethodGet, "http://localhost:8500/", known).StatusCode)
	another := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookie.Name, Value: "guessed"}) }
	assert.Equal(t, http.StatusUnauthorized, do(http.MethodGet, home, another).StatusCode)

	// DNS rebinding, and pages of other sites.
	for _, host := range []string{"evil.example:8500", "127.0.0.1", "127.0.0.1:8501", "evil.example"} {
		assert.Equal(t, http.StatusMisdirectedRequest, do(http.MethodGet, (&url.URL{Scheme: "http", Host: host, Path: "/"}).String(), known).StatusCode, host)
	}
	crossSite := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }
	assert.Equal(t, http.StatusForbidden, do(http.MethodPost, home, known, crossSite).StatusCode)
	origin := func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:9999") }
	assert.Equal(t, http.StatusForbidden, do(http.MethodPost, home, known, origin).StatusCode)
	assert.NotEmpty(t, response.Header.Get("Content-Security-Policy"))
}

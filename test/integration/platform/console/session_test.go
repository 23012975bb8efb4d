// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestUsersSignInWithATokenAndOut(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10))
	pods := w.RequireExact("web", split.New(70, 2), 10)
	s := serve(t, w)
	token := s.account("viewer", viewer...)

	// Without a session there is only the login.
	b := s.browser()
	a := b.get("/nodes?x=1")
	require.Equal(t, http.StatusSeeOther, a.status)
	require.Equal(t, "/login?next=%2Fnodes%3Fx%3D1", a.header.Get("Location"))
	assert.Contains(t, b.get("/login?next=%2Fnodes").body, `<input type="hidden" name="next" value="/nodes">`)
	assert.Equal(t, http.StatusUnauthorized, b.post("/limits", url.Values{}).status)
	assert.Contains(t, b.get("/stream?page=%2F").body, "The session has ended")
	assert.Equal(t, http.StatusOK, b.get("/static/console.css").status)

	parts := strings.Split(token, ".")
	forged := parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2]))
	for _, wrong := range []string{"", "nonsense", "two words", forged, strings.Repeat("a", 17<<10)} {
		a := b.post("/login", url.Values{"token": {wrong}})
		assert.Contains(t, []int{http.StatusUnauthorized, http.StatusBadRequest}, a.status)
		assert.Empty(t, b.cookies)
		assert.NotContains(t, a.body, forged)
	}

	a = b.post("/login", url.Values{"token": {token}, "next": {"//evil.example/"}})
	require.Equal(t, http.StatusSeeOther, a.status, a.body)
	assert.Equal(t, "/", a.header.Get("Location"), "to no other host")
	cookie := b.cookies["__Host-berth-console"]
	require.NotNil(t, cookie)
	assert.True(t, cookie.HttpOnly && cookie.Secure && cookie.SameSite == http.SameSiteStrictMode && cookie.Path == "/" && cookie.Domain == "")
	assert.NotContains(t, token, cookie.Value)
	b.in(w.Namespace).shows("/", `<dt>Spot</dt><dd>7/7</dd>`, `<dt>On-demand</dt><dd>3/3</dd>`, "✓ Satisfied",
		"system:serviceaccount:"+w.Namespace+":viewer</span>", `name="namespace" value="`+w.Namespace+`"`)
	page := b.get("/workloads/" + w.Namespace + "/Deployment/web").body
	for i := range pods {
		node := pods[i].Spec.NodeName
		assert.Contains(t, page, `aria-label="Logs of `+pods[i].Name+`">logs</a></td><td data-label="Node"><a href="/nodes/`+node+`">`+node+"</a></td>")
	}

	// A guessed cookie, and one of another session.
	guess := s.browser()
	guess.cookies[cookie.Name] = &http.Cookie{Name: cookie.Name, Value: strings.Repeat("A", len(cookie.Value))}
	assert.Equal(t, http.StatusSeeOther, guess.get("/").status)
	other := s.signIn(token)
	assert.NotEqual(t, cookie.Value, other.cookies[cookie.Name].Value)

	a = b.post("/logout", nil)
	require.Equal(t, "/login", a.header.Get("Location"))
	assert.Empty(t, b.cookies)
	b.cookies[cookie.Name] = cookie
	assert.Equal(t, http.StatusSeeOther, b.get("/").status, "the session has ended, whatever a browser keeps")
	assert.Equal(t, http.StatusOK, other.get("/").status)
	s.requireNoToken(token, "nonsense", forged)
	assert.NotContains(t, testenv.ReadFile(t, s.process.LogPath()), cookie.Value)
}

func TestOtherSitesReachNothing(t *testing.T) {
	s := serve(t, testenv.New(t), func(c *controller.Console) { c.Hosts = []string{"berth.example"} })
	b := s.signIn(s.account("viewer", viewer...))
	for host, status := range map[string]int{
		"evil.example": 421, "berth.example.evil.example": 421, "berth-console": 421, "10.0.0.1": 421, "": 200,
		"berth.example": 200, "BERTH.example:8443": 200, "localhost:1234": 200, "[::1]:9": 200, "127.0.0.1": 200,
	} {
		b.header.Set("Host", host)
		assert.Equal(t, status, b.get("/login").status, host)
		if status != 200 {
			assert.Equal(t, status, b.get("/").status, host)
			assert.Equal(t, status, b.post("/login", url.Values{"token": {"x"}}).status, host)
		}
	}
	b.header.Del("Host")
	for _, path := range []string{"/", "/login", "/nowhere", "/static/console.js", "/stream?page=x&page=%00"} {
		if strings.HasPrefix(path, "/stream") {
			b.cookies = map[string]*http.Cookie{} // else it is open for long
		}
		h := b.get(path).header
		assert.Equal(t, "DENY", h.Get("X-Frame-Options"), path)
		assert.Contains(t, h.Get("Content-Security-Policy"), "frame-ancestors 'none'", path)
		assert.Contains(t, h.Get("Content-Security-Policy"), "default-src 'none'", path)
		assert.Equal(t, "no-store", h.Get("Cache-Control"), path)
		assert.Equal(t, "no-referrer", h.Get("Referrer-Policy"), path)
	}
	b = s.signIn(s.Token("viewer"))
	for _, foreign := range []http.Header{{"Sec-Fetch-Site": {"cross-site"}}, {"Sec-Fetch-Site": {"same-site"}}, {"Origin": {"https://evil.example"}}} {
		b.header = foreign
		for _, path := range []string{"/login", "/logout", "/namespace", "/limits", "/mixes/a/b", "/environments/a/b/run"} {
			assert.Equal(t, http.StatusForbidden, b.post(path, url.Values{"token": {"x"}, "namespace": {"x"}}).status, path)
		}
	}
	b.header = http.Header{}
	assert.Equal(t, http.StatusOK, b.get("/").status, "it is still signed in")

	// Neither headers that name a user, nor a token in a header count.
	for _, header := range []http.Header{
		{"X-Remote-User": {"system:admin"}, "X-Remote-Group": {"system:masters"}, "Impersonate-User": {"system:admin"}},
		{"Authorization": {"Bearer " + s.Token("viewer")}},
		{"X-Forwarded-User": {"system:admin"}},
	} {
		stranger := s.browser()
		stranger.header = header
		assert.Equal(t, http.StatusSeeOther, stranger.get("/").status)
	}
}

// What cannot be revoked for good, such as a token, must end with its ServiceAccount.
func TestASessionEndsWithItsToken(t *testing.T) {
	s := serve(t, testenv.New(t))
	token := s.account("viewer", viewer...)
	b := s.signIn(token)
	b.shows("/", "As of")
	page := b.open("/")
	page.shows(10*time.Second, `"id":"age"`)
	s.Delete(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "viewer"}})
	took := page.shows(30*time.Second, "The session has ended")
	t.Logf("the open page shows it after %s", took)
	assert.Equal(t, http.StatusSeeOther, b.get("/").status)
	assert.Equal(t, http.StatusUnauthorized, b.post("/login", url.Values{"token": {token}}).status)
	s.requireNoToken(token)
}

// A proxy sends the token of each request.
func TestAProxySendsTheTokenOfEachRequest(t *testing.T) {
	s := serve(t, testenv.New(t), func(c *controller.Console) { c.AcceptAuthorizationHeader = true })
	token := s.account("viewer", viewer...)
	b := s.browser()
	b.header.Set("Authorization", "Bearer "+token)
	a := b.shows("/", "system:serviceaccount:"+s.Namespace+":viewer</span>")
	assert.NotContains(t, a.body, "Sign out", "the proxy does that")
	assert.Empty(t, b.cookies)
	b.header.Set("X-Remote-User", "system:admin")
	assert.NotContains(t, b.get("/").body, "system:admin")
	b.header.Set("Authorization", "Bearer nonsense")
	assert.Equal(t, http.StatusUnauthorized, b.get("/").status)
	b.header.Set("Authorization", "Basic dmlld2VyOg==")
	assert.Equal(t, http.StatusSeeOther, b.get("/").status)
	log := testenv.ReadFile(t, s.process.LogPath())
	assert.NotContains(t, log, token)
}

func TestSessionsAreBounded(t *testing.T) {
	s := serve(t, testenv.New(t), func(c *controller.Console) {
		c.Limits.Sessions, c.Limits.SessionsPerUser, c.Limits.StreamsPerUser = 3, 2, 1
		c.Limits.UnknownTokensPerSecondPerAddress = 2
	})
	one, two := s.account("one", viewer...), s.account("two", viewer...)
	a, b, other := s.signIn(one), s.signIn(one), s.signIn(two)
	s.signIn(one)
	assert.Equal(t, http.StatusSeeOther, a.get("/").status, "the one that was not used for longest gave way")
	assert.Equal(t, http.StatusOK, b.get("/").status)
	assert.Equal(t, http.StatusOK, other.get("/").status, "that of another user did not")

	page := b.open("/")
	page.shows(10*time.Second, `"id":"age"`)
	refused := b.get("/stream?page=%2F")
	assert.Equal(t, http.StatusTooManyRequests, refused.status)
	assert.Contains(t, refused.body, "console.limits.streamsPerUser is 1")

	s.Eventually("unknown tokens are limited", func() (bool, string) {
		var a answer
		for range 20 { // at once: in two seconds, four are not too many
			a = s.browser().post("/login", url.Values{"token": {"guess" + time.Now().String()[11:29]}})
		}
		return a.status == http.StatusTooManyRequests && strings.Contains(a.body, "unknownTokensPerSecondPerAddress is 2"), a.body
	})
}

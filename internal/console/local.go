// SPDX-License-Identifier: Apache-2.0

package console

import (
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Local lets in the browser that was opened with the URL, on this machine only.
type Local struct {
	next    http.Handler
	address string
	hosts   []string
	cookie  string
	// token is in the URL, session in the cookie that the URL is exchanged for.
	token, session string
}

// NewLocal returns a handler for a listener on a loopback address.
func NewLocal(next http.Handler, listener net.Addr) *Local {
	address := listener.String()
	_, port, _ := net.SplitHostPort(address) // the address of a listener has a port
	return &Local{
		next: http.NewCrossOriginProtection().Handler(next), address: address,
		hosts: []string{address, net.JoinHostPort("localhost", port)},
		// Cookies are sent to all ports of a host.
		cookie: "berth-console-" + port, token: rand.Text(), session: rand.Text(),
	}
}

// URL is what the user opens. It admits any client that has it.
func (l *Local) URL() string {
	return (&url.URL{Scheme: "http", Host: l.address, Path: "/login", RawQuery: url.Values{"token": {l.token}}.Encode()}).String()
}

// ServeHTTP implements http.Handler. A name that an attacker has resolve to this machine is not one of its hosts.
func (l *Local) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	switch {
	case !slices.Contains(l.hosts, r.Host):
		WriteProblem(w, http.StatusMisdirectedRequest, "This host is not served: open the URL that kubectl berth ui prints.")
	case r.URL.Path == "/login":
		l.login(w, r)
	case !l.known(r) && !strings.HasPrefix(r.URL.Path, "/static/"): // also the page that refuses has a style
		WriteProblem(w, http.StatusUnauthorized, "Unknown browser: open the URL that kubectl berth ui prints.")
	default:
		l.next.ServeHTTP(w, r)
	}
}

// login exchanges the token for a cookie, so that it is in no URL of a page.
func (l *Local) login(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !same(r.URL.Query().Get("token"), l.token) {
		WriteProblem(w, http.StatusUnauthorized, "Invalid token: open the URL that kubectl berth ui prints.")
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: l.cookie, Value: l.session, Path: "/", HttpOnly: true, Secure: true, SameSite: http.SameSiteStrictMode,
	})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (l *Local) known(r *http.Request) bool {
	c, err := r.Cookie(l.cookie)
	return err == nil && same(c.Value, l.session)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/util/validation"

	pages "berth.dev/berth/internal/console"
	"berth.dev/berth/services/server"
)

const (
	// maxLogin bounds the form of a login.
	maxLogin = maxToken + 4<<10
	// maxNext bounds the path of the page that follows a login.
	maxNext = 2 << 10
	// namespaceCookie has the namespace that a browser shows. It is no secret, and no right.
	namespaceCookie = "berth-namespace"
	retrySeconds    = "5"
)

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pages.Secure(w.Header())
	bounded(w)
	if !serves(s.hosts, r.Host) {
		problem(w, http.StatusMisdirectedRequest, "this host is not served: console.hosts in the configuration has the names of the console")
		return
	}
	s.handler.ServeHTTP(w, r)
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /static/", pages.Static())
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) { s.login(w, http.StatusOK, r.URL.Query().Get("next"), "") })
	mux.HandleFunc("POST /login", s.signIn)
	mux.HandleFunc("POST /logout", s.signOut)
	mux.HandleFunc("POST /namespace", s.chooseNamespace)
	mux.HandleFunc("GET /stream", s.stream)
	for _, path := range pages.Followed {
		mux.HandleFunc("GET "+path, s.stream)
	}
	mux.HandleFunc("/", s.page)
	return http.NewCrossOriginProtection().Handler(mux)
}

// problem writes a page with a sentence.
func problem(w http.ResponseWriter, status int, sentence string) {
	pages.WriteProblem(w, status, strings.ToUpper(sentence[:1])+sentence[1:]+".")
}

// statusOf is the status and the sentence of an error of a visitor.
func statusOf(err error) (status int, sentence string) {
	if errors.Is(err, errNoSession) || errors.Is(err, errRevoked) {
		return http.StatusUnauthorized, err.Error()
	}
	e := server.AsError(err)
	switch e.Code {
	case codes.Unauthenticated:
		return http.StatusUnauthorized, e.Message
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests, e.Message
	}
	return http.StatusServiceUnavailable, "the API server cannot be reached: retry later"
}

func refuse(w http.ResponseWriter, err error) {
	status, sentence := statusOf(err)
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retrySeconds)
	}
	problem(w, status, sentence)
}

// bounded limits how long a request may take to be read and answered. The limit of the request before it on the connection would stay.
func bounded(w http.ResponseWriter) {
	control := http.NewResponseController(w)
	end := time.Now().Add(requestTimeout)
	_, _ = control.SetReadDeadline(end), control.SetWriteDeadline(end)
}

// page serves a page, or what a form of one sends.
func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	v, err := s.visitor(r)
	if err != nil {
		s.unknown(w, r, err)
		return
	}
	s.admit(w, r, v, s.requests, func(shown *pages.Console, k key) {
		shown.ServeHTTP(w, r.WithContext(signedIn(r.Context(), v, k)))
	})
}

// admit serves the request of a visitor, which counts in a pool, with the pages that the visitor may see, or refuses it. It releases the
// visitor.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, v *visitor, pool *server.Pool, serve func(*pages.Console, key)) {
	defer v.release()
	defer server.HoldConnection(r.Context())()
	user := v.user.GetName()
	if err := pool.Take(user, 1); err != nil {
		refuse(w, err)
		return
	}
	defer pool.Free(user, 1)
	k, err := s.keyOf(r.Context(), v, namespaceOf(r))
	if err != nil {
		refuse(w, err)
		return
	}
	shown, release, err := s.hubs.take(k, user)
	if err != nil {
		refuse(w, err)
		return
	}
	defer release()
	serve(shown, k)
}

// unknown sends a browser without a session to the login.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request, err error) {
	status, _ := statusOf(err)
	byHeader := s.config.AcceptAuthorizationHeader && server.Bearer(r.Header) != ""
	if status != http.StatusUnauthorized || r.Method != http.MethodGet || byHeader {
		refuse(w, err)
		return
	}
	at := "/login"
	if r.URL.RequestURI() != "/" && len(r.URL.RequestURI()) <= maxNext {
		at += "?" + url.Values{"next": {r.URL.RequestURI()}}.Encode()
	}
	http.Redirect(w, r, at, http.StatusSeeOther)
}

// signedIn is the context of a request to the pages.
func signedIn(ctx context.Context, v *visitor, k key) context.Context {
	ctx = context.WithValue(ctx, visitorKey{}, v)
	return pages.WithAccount(ctx, &pages.Account{User: v.user.GetName(), Namespace: k.namespace, SignOut: v.session != nil, Session: v.id})
}

// keyOf is the key of what a visitor sees of a namespace, or of all with "".
func (s *Server) keyOf(ctx context.Context, v *visitor, namespace string) (key, error) {
	granted, err := s.reviewer.of(ctx, v.user, namespace)
	return key{namespace, granted}, err
}

func namespaceOf(r *http.Request) string {
	c, err := r.Cookie(namespaceCookie)
	if err != nil || len(validation.IsDNS1123Label(c.Value)) > 0 {
		return ""
	}
	return c.Value
}

func (s *Server) login(w http.ResponseWriter, status int, next, why string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = pages.Login{Next: nextOf(next), Problem: why}.Write(w) // the client is gone
}

// nextOf is the path of the page that follows a login: none of another host.
func nextOf(next string) string {
	at, err := url.Parse(next)
	if err != nil || len(next) > maxNext || at.Scheme != "" || at.Host != "" || at.User != nil || !strings.HasPrefix(next, "/") ||
		strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") || strings.HasPrefix(at.Path, "/login") {
		return "/"
	}
	return next
}

// form reads a small form.
func form(w http.ResponseWriter, r *http.Request) bool {
	r.Body = http.MaxBytesReader(w, r.Body, maxLogin)
	if err := r.ParseForm(); err != nil {
		problem(w, http.StatusBadRequest, "the form cannot be read")
		return false
	}
	return true
}

// signIn begins a session with the token of the form.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request) {
	if !form(w, r) {
		return
	}
	next, token := r.PostForm.Get("next"), strings.TrimSpace(r.PostForm.Get("token"))
	if token == "" || strings.ContainsAny(token, " \r\n\t") {
		s.login(w, http.StatusUnauthorized, next, "This is not a valid bearer token.")
		return
	}
	u, err := s.authenticate(r.Context(), token, r)
	if err == nil {
		var cookie string
		if cookie, _, err = s.sessions.begin(token, u); err == nil {
			s.log.Info("Signed in", "user", u.GetName(), "peer", r.RemoteAddr)
			s.setCookie(w, s.cookie, cookie, 0)
			http.Redirect(w, r, nextOf(next), http.StatusSeeOther) //nolint:gosec // nextOf leads to no other host
			return
		}
	}
	status, sentence := statusOf(err)
	if status == http.StatusUnauthorized {
		sentence = "the API server does not accept this token: it is invalid, or has expired"
	}
	s.log.V(2).Info("Refused to sign in", "status", status, "peer", r.RemoteAddr) // anyone can cause it
	if status != http.StatusUnauthorized {
		w.Header().Set("Retry-After", retrySeconds)
	}
	s.login(w, status, next, strings.ToUpper(sentence[:1])+sentence[1:]+".")
}

// setCookie sets a cookie of the browser's session; with a negative age it is deleted.
func (s *Server) setCookie(w http.ResponseWriter, name, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: true, SameSite: http.SameSiteStrictMode,
	})
}

// signOut ends the session of a request.
func (s *Server) signOut(w http.ResponseWriter, r *http.Request) {
	if !form(w, r) {
		return
	}
	if c, err := r.Cookie(s.cookie); err == nil {
		if found, release := s.sessions.use(c.Value); found != nil {
			u, _, _ := s.sessions.state(found)
			s.sessions.end(found)
			release()
			s.log.Info("Signed out", "user", u.GetName(), "peer", r.RemoteAddr)
		}
	}
	s.setCookie(w, s.cookie, "", -1)
	s.setCookie(w, namespaceCookie, "", -1)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// chooseNamespace sets what the browser shows.
func (s *Server) chooseNamespace(w http.ResponseWriter, r *http.Request) {
	if !form(w, r) {
		return
	}
	namespace := strings.TrimSpace(r.PostForm.Get("namespace"))
	if namespace == "" {
		s.setCookie(w, namespaceCookie, "", -1)
	} else {
		if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
			problem(w, http.StatusBadRequest, "namespace: "+strings.Join(wrong, "; "))
			return
		}
		s.setCookie(w, namespaceCookie, namespace, 0)
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

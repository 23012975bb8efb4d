// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"io"
	"net/http"
)

// Account is the user of a page where users sign in.
type Account struct {
	User string
	// Namespace is what the pages show, "" for all.
	Namespace string
	// SignOut is set if the user has a session to end.
	SignOut bool
	// Session identifies whose pages show what the user writes before it is read for all.
	Session string
}

type accountKey struct{}

// WithAccount returns a context whose pages show an account, with forms that post to /namespace and /logout.
func WithAccount(ctx context.Context, a *Account) context.Context {
	return context.WithValue(ctx, accountKey{}, a)
}

// accountOf is the account of a request as pages show it, nil if there is none.
func accountOf(r *http.Request) *Account {
	a, ok := r.Context().Value(accountKey{}).(*Account)
	if !ok {
		return nil
	}
	return &Account{User: inert(a.User), Namespace: inert(a.Namespace), SignOut: a.SignOut}
}

// userOf is the user of a request, "" where there is only one.
func userOf(r *http.Request) string {
	if a, ok := r.Context().Value(accountKey{}).(*Account); ok {
		return a.User
	}
	return ""
}

// Login is the page that users sign in on.
type Login struct {
	// Next is the path of the page that the user opens afterwards.
	Next string
	// Problem is why the user could not sign in, empty at first.
	Problem string
}

// Write writes the page. It refers to /static, which a Console serves.
func (l Login) Write(w io.Writer) error {
	l.Problem = inert(l.Problem)
	return templates.ExecuteTemplate(w, "login", l)
}

// WriteProblem writes a page that has only a sentence.
func WriteProblem(w http.ResponseWriter, status int, sentence string) {
	Secure(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = templates.ExecuteTemplate(w, "problem", inert(sentence)) // the client is gone
}

// Secure sets the headers of all responses, for those of a handler in front of a Console.
func Secure(h http.Header) { secure(h) }

// EndStream writes the event with which an open page reports that its session has ended, in place of what reports that the connection
// is lost. The browser then waits for an hour until it connects again, because an earlier attempt would fail too.
func EndStream(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	event, err := eventOf(replacement{ID: "connection", HTML: string(render("signed-out", nil))})
	if err != nil {
		return // constants
	}
	_, _ = w.Write(append([]byte("retry: 3600000\n"), event...)) // the client may be gone
}

// Static serves the style, the script and the icon, which need no authentication.
func Static() http.Handler { return compressed(staticFiles()) }

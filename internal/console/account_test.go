// SPDX-License-Identifier: Apache-2.0

package console

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const script = `"><script>alert(1)</script>` + "\u202e"

func TestPagesShowWhoIsSignedIn(t *testing.T) {
	_, c := start(t, overviewOf())
	page := func(a *Account) string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		if a != nil {
			r = r.WithContext(WithAccount(r.Context(), a))
		}
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		return w.Body.String()
	}
	assert.NotContains(t, page(nil), "/logout", "no one signs in to kubectl berth ui")
	shown := page(&Account{User: "alice", Namespace: "shop", SignOut: true})
	assert.Contains(t, shown, `<form method="post" action="/namespace"><label>Namespace <input name="namespace" value="shop"`)
	assert.Contains(t, shown, `<span class="dim">alice</span> <button>Sign out</button>`)
	assert.NotContains(t, page(&Account{User: "alice"}), "Sign out")
	hostile := page(&Account{User: script, Namespace: script})
	assert.Len(t, elements(t, hostile)["script"], 1)
	assert.NotContains(t, hostile, "\u202e")
}

func TestTheLoginPageIsInert(t *testing.T) {
	var b strings.Builder
	require.NoError(t, Login{Next: script, Problem: script}.Write(&b))
	all := elements(t, b.String())
	assert.Empty(t, all["script"])
	assert.Len(t, all["form"], 1)
	assert.Contains(t, b.String(), `<form method="post" action="/login" `, "the token is in no URL")
	w := httptest.NewRecorder()
	WriteProblem(w, http.StatusServiceUnavailable, script)
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Empty(t, elements(t, w.Body.String())["script"])
	assert.Contains(t, w.Header().Get("Content-Security-Policy"), "frame-ancestors 'none'")
}

// An open page replaces the report of a lost connection, which its script shows when the stream ends.
func TestAnEndedSessionIsShownOnOpenPages(t *testing.T) {
	w := httptest.NewRecorder()
	EndStream(w)
	assert.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	assert.True(t, strings.HasPrefix(w.Body.String(), "retry: 3600000\nevent: part\ndata: {\"id\":\"connection\","), w.Body.String())
	assert.Contains(t, w.Body.String(), "The session has ended")
	assert.True(t, strings.HasSuffix(w.Body.String(), "\n\n"))
}

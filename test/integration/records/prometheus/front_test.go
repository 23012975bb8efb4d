// SPDX-License-Identifier: Apache-2.0

package prometheus_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// fault answers in place of Prometheus.
type fault func(w http.ResponseWriter, r *http.Request)

func serverError(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "no: "+strings.Repeat("very ", 1000)+"broken", http.StatusInternalServerError)
}

// silence answers nothing for as long as someone waits for it.
func silence(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func answer(body string) fault {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body))
	}
}

var empty = answer(`{"status":"success","data":{"resultType":"vector","result":[]}}`)

// front stands before Prometheus, and answers itself where it is told to.
type front struct {
	URL string

	mu sync.Mutex
	// past and now replace the answers to range and to instant queries; nil passes them on.
	past, now fault
	asked     []string
}

func newFront(t *testing.T) *front {
	t.Helper()
	target, err := url.Parse(shared.server.URL)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	f := &front{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := strings.TrimPrefix(r.URL.Path, "/api/v1/")
		f.mu.Lock()
		f.asked = append(f.asked, kind)
		instead := map[string]fault{"query_range": f.past, "query": f.now}[kind]
		f.mu.Unlock()
		if instead == nil {
			proxy.ServeHTTP(w, r)
			return
		}
		require.NoError(t, r.ParseForm()) // read it: only then is it seen that the client went away
		instead(w, r)
	}))
	t.Cleanup(s.Close)
	f.URL = s.URL
	return f
}

// set has it answer itself from now on, and forgets what it was requested.
func (f *front) set(past, now fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.past, f.now, f.asked = past, now, nil
}

func (f *front) wasAsked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

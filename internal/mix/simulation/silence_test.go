// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// still is an API server that stalls at one list, before its answer or in the middle of it, until the test ends.
type still struct {
	at     string
	before bool
	end    chan struct{}
	stood  atomic.Bool
}

func (s *still) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	stalls := strings.HasSuffix(req.URL.Path, s.at)
	if stalls && s.before {
		s.stood.Store(true)
		<-s.end
	}
	_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"7"},`)
	if stalls {
		s.stood.Store(true)
		w.(http.Flusher).Flush()
		<-s.end
	}
	_, _ = io.WriteString(w, `"items":[]}`)
}

// The answer of an API server that stalled is no snapshot of this moment, however it goes on.
func TestNoSnapshotWaitsForAnAPIServerThatStalls(t *testing.T) {
	for name, s := range map[string]*still{
		"before the nodes":     {at: "/nodes", before: true},
		"within the pods":      {at: "/pods"},
		"before the CSI nodes": {at: "/csinodes", before: true},
		"within the volumes":   {at: "/persistentvolumes"},
		"before the limits":    {at: "/resourcelimits", before: true},
	} {
		t.Run(name, func(t *testing.T) {
			s.end = make(chan struct{})
			server := httptest.NewServer(s)
			t.Cleanup(server.Close)
			t.Cleanup(func() { close(s.end) })
			profile := DefaultProfile()
			require.True(t, profile.readsLimits())
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := Take(ctx, &rest.Config{Host: server.URL, Timeout: time.Second}, profile)
			require.ErrorIs(t, err, errSilent)
			require.ErrorIs(t, err, context.DeadlineExceeded, "which callers know as no answer")
			assert.True(t, s.stood.Load())
		})
	}
}

// A long list is no silence.
func TestASnapshotMayTakeLongerThanTheSilence(t *testing.T) {
	const parts, pause = 10, 250 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < parts && strings.HasSuffix(req.URL.Path, "/nodes"); i++ {
			_, _ = io.WriteString(w, " ")
			w.(http.Flusher).Flush()
			select {
			case <-req.Context().Done():
			case <-time.After(pause):
			}
		}
		_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"7"},"items":[]}`)
	}))
	t.Cleanup(server.Close)
	s, err := Take(t.Context(), &rest.Config{Host: server.URL, Timeout: 6 * pause}, DefaultProfile())
	require.NoError(t, err)
	s.Close()
}

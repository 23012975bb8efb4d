// SPDX-License-Identifier: Apache-2.0

package crdinformer

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"berth.dev/berth/internal/kube/client"
)

// An API server that is still filling its cache of a new custom resource lists
// it and refuses to watch it, with Retry-After: 1.
func TestRetryAfterOfTheServerIsNotWaitedFor(t *testing.T) {
	for name, test := range map[string]struct {
		refusals int
		requests int
		live     bool
	}{
		"at once":     {refusals: 0, requests: 1, live: true},
		"when it can": {refusals: 5, requests: 6, live: true},
		"and not indefinitely: then the informer's own, longer backoff begins": {refusals: 1000, requests: 8},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, "true", r.URL.Query().Get("watch"))
				assert.Equal(t, "/apis/berth.dev/v1alpha1/resourcelimits", r.URL.Path)
				if int(requests.Add(1)) <= test.refusals {
					w.Header().Set("Retry-After", "1")
					w.WriteHeader(http.StatusTooManyRequests)
				}
			}))
			defer server.Close()
			client, err := client.New(&rest.Config{Host: server.URL})
			require.NoError(t, err)
			var live atomic.Bool
			watch, err := eagerListWatch(client, "resourcelimits", &live).WatchFuncWithContext(t.Context(), metav1.ListOptions{})
			if test.live {
				require.NoError(t, err)
				watch.Stop()
			} else {
				assert.True(t, apierrors.IsTooManyRequests(err), "%v", err)
			}
			assert.Equal(t, test.live, live.Load())
			assert.EqualValues(t, test.requests, requests.Load())
		})
	}
}

// The informer would take an answer that is neither a watch nor an error for a
// watch, and crash: at the end of a scheduler whose API server ends with it.
func TestAWatchThatIsCancelledDuringItsRequestIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	client, err := client.New(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	var live atomic.Bool
	watch, err := eagerListWatch(client, "resourcelimits", &live).WatchFuncWithContext(ctx, metav1.ListOptions{})
	require.ErrorIs(t, err, context.Canceled)
	assert.Nil(t, watch)
	assert.False(t, live.Load())
}

// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// An answer that does not arrive is none, in whichever way the connection, or its stream, ends: the eviction may have taken place.
func TestALostAnswerIsNoRefusal(t *testing.T) {
	for name, end := range map[string]func(http.ResponseWriter){
		"the stream is reset": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"the answer is cut off": func(out http.ResponseWriter) {
			out.Header().Set("Content-Type", "application/json")
			out.WriteHeader(http.StatusCreated)
			_, _ = out.Write([]byte(`{"kind":"Sta`))
			out.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
		"a proxy has no server": func(out http.ResponseWriter) { out.WriteHeader(http.StatusBadGateway) },
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				server := httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { end(out) }))
				server.EnableHTTP2 = http2
				server.StartTLS()
				defer server.Close()
				kube, err := kubernetes.NewForConfig(&rest.Config{
					Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, Timeout: 5 * time.Second,
				})
				require.NoError(t, err)
				err = kube.CoreV1().Pods("n").EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
				require.Error(t, err)
				assert.True(t, unanswered(err), "HTTP/2 %t: %T: %v", http2, err, err)
			})
		}
	}
}

// A webhook that holds an eviction is the tenant's, and a webhook that cannot be called: neither is an outage of the API
// server, in which nothing of the whole cluster moves.
func TestAnEvictionThatIsHeldBeginsNoGrace(t *testing.T) {
	for name, err := range map[string]error{
		"the API server ended it":  apierrors.NewTimeoutError("context deadline exceeded", 0),
		"the client ended it":      fmt.Errorf("post: %w", context.DeadlineExceeded),
		"the webhook has no place": apierrors.NewServiceUnavailable("no endpoints available for service"),
		"the webhook failed":       apierrors.NewInternalError(errors.New("failed calling webhook")),
	} {
		t.Run(name, func(t *testing.T) {
			c := testController(t)
			require.Error(t, c.api.write(t.Context(), func(context.Context) error { return err }))
			assert.Zero(t, c.clusterNow().GraceUntil)
		})
	}
	c := testController(t)
	require.Error(t, c.api.write(t.Context(), func(context.Context) error { return io.ErrUnexpectedEOF }))
	assert.NotZero(t, c.clusterNow().GraceUntil, "the connection is gone")
	c = testController(t)
	require.Error(t, c.api.bounded(t.Context(), func(context.Context) error { return apierrors.NewServiceUnavailable("no") }))
	assert.NotZero(t, c.clusterNow().GraceUntil, "what all decisions are made by could not be read")
}

// SPDX-License-Identifier: Apache-2.0

package uncached

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A request that the limit of the client would hold up beyond the deadline of its call ends with that deadline.
func TestARequestOverTheLimitEndsWithItsDeadline(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Secret","apiVersion":"v1"}`))
	}))
	defer api.Close()
	kube, err := kubernetes.NewForConfig(WithDeadlines(&rest.Config{Host: api.URL, QPS: 0.01, Burst: 1}))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = kube.CoreV1().Secrets("n").Get(t.Context(), "x", metav1.GetOptions{})
	require.NoError(t, err)
	_, err = kube.CoreV1().Secrets("n").Get(ctx, "x", metav1.GetOptions{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

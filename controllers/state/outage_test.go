// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Attempts back off to half a minute and more: counted from the last one that
// failed, the time in which nothing is moved could be over when the API server
// is back.
func TestAnOutageIsRecordedAtItsStartAndEnd(t *testing.T) {
	var away atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}})
	}))
	defer server.Close()
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	noted := 0
	nodes := source{
		name: "nodes", client: kube.CoreV1().RESTClient(), object: &corev1.Node{}, list: &corev1.NodeList{}, store: &store{}, keep: strip,
	}
	lw := nodes.listWatch(func(time.Time) { noted++ })
	list := func() error {
		_, err := lw.ListWithContextFunc(t.Context(), metav1.ListOptions{})
		return err
	}
	require.NoError(t, list())
	require.Zero(t, noted, "all is well")
	away.Store(true)
	require.Error(t, list())
	require.Error(t, list())
	require.Equal(t, 2, noted, "each failure is noted")
	away.Store(false)
	require.NoError(t, list())
	require.Equal(t, 3, noted, "the end of the outage is noted")
	require.NoError(t, list())
	require.Equal(t, 3, noted, "all is well again")
}

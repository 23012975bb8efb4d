// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// requests counts the requests to an API server that answers every list equally.
type requests struct {
	mu   sync.Mutex
	seen map[string]int
}

func (r *requests) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.seen[req.Method+" "+req.URL.Path+" "+req.URL.Query().Get("watch")+req.URL.Query().Get("resourceVersion")]++
	r.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch req.URL.Path {
	case "/apis/storage.k8s.io/v1/csinodes":
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(
			w,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden",`+
				`"code":403,"message":"csinodes.storage.k8s.io is forbidden: no"}`,
		)
	case "/apis/resource.k8s.io/v1/resourceclaims":
		http.NotFound(w, req)
	default:
		_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"7"},"items":[]}`)
	}
}

func serve(t *testing.T) (*requests, kubernetes.Interface) {
	t.Helper()
	r := &requests{seen: map[string]int{}}
	return r, clientOf(t, r)
}

// clientOf is a client of an API server, as a snapshot uses it.
func clientOf(t *testing.T, api http.Handler) kubernetes.Interface {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(listOnce(&rest.Config{Host: server.URL}))
	require.NoError(t, err)
	return client
}

func TestOneListPerKindAndNoWatchReachesTheServer(t *testing.T) {
	r, client := serve(t)
	f := newFactory(client, nil)
	f.Core().V1().PersistentVolumes().Lister()
	f.Core().V1().PersistentVolumes().Informer()
	f.Storage().V1().StorageClasses().Lister()
	f.Resource().V1().ResourceClaims().Lister() // not served
	f.Networking().V1().Ingresses().Lister()    // of another API group
	f.Core().V1().Pods().Lister()
	require.NoError(t, f.fill(t.Context()))
	assert.Equal(t, map[string]int{
		"GET /api/v1/persistentvolumes ":               1,
		"GET /apis/storage.k8s.io/v1/storageclasses ":  1,
		"GET /apis/resource.k8s.io/v1/resourceclaims ": 1,
		"GET /apis/networking.k8s.io/v1/ingresses ":    1,
	}, r.seen)
}

func TestAForbiddenListIsAnErrorThatNamesTheResource(t *testing.T) {
	_, client := serve(t)
	_, err := take(t.Context(), client, DefaultProfile(), nil)
	require.EqualError(t, err, "list kind CSINode: csinodes.storage.k8s.io is forbidden: no")
}

func TestTakeEndsWithItsContext(t *testing.T) {
	block := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/api/v1/persistentvolumes" {
			<-block
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"7"},"items":[]}`)
	}))
	defer server.Close()
	defer close(block)
	// On a busy machine, the other lists take a while.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := Take(ctx, &rest.Config{Host: server.URL}, DefaultProfile())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "PersistentVolume")
}

func TestAWatchThatBeginsWithAListIsRefusedAsByAnOldServer(t *testing.T) {
	r, client := serve(t)
	yes := true
	_, err := client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{SendInitialEvents: &yes})
	require.ErrorContains(t, err, "sendInitialEvents")
	assert.Empty(t, r.seen)
}

func TestAWatchIsSilentUntilItIsStopped(t *testing.T) {
	_, client := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	stopped, err := client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	ended, err := client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	stopped.Stop()
	requireClosed(t, stopped.ResultChan())
	cancel()
	requireClosed(t, ended.ResultChan())
}

func requireClosed[T any](t *testing.T, c <-chan T) {
	t.Helper()
	select {
	case _, open := <-c:
		require.False(t, open, "nothing is ever sent")
	case <-time.After(10 * time.Second):
		require.Fail(t, "the watch did not end")
	}
}

func TestNothingIsWritten(t *testing.T) {
	r, client := serve(t)
	_, err := client.CoreV1().Pods("a").Create(t.Context(), &corev1.Pod{}, metav1.CreateOptions{})
	require.ErrorContains(t, err, "a replay does not write")
	assert.Empty(t, r.seen)
}

func TestPodListsAreRestartedWhenTheirPagesExpire(t *testing.T) {
	expired := false
	client := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		q := req.URL.Query()
		assert.Equal(t, "100", q.Get("limit"))
		assert.Equal(t, notTerminated, q.Get("fieldSelector"))
		w.Header().Set("Content-Type", "application/json")
		page := corev1.PodList{Items: []corev1.Pod{*pod("bound", "n"), *pod("waiting", "")}}
		switch {
		case q.Get("continue") == "":
			page.Continue = "more"
		case !expired:
			expired = true
			w.WriteHeader(http.StatusGone)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`)
			return
		}
		_ = json.NewEncoder(w).Encode(page)
	}))
	pods, err := listPods(t.Context(), client, notTerminated)
	require.NoError(t, err)
	require.Len(t, pods, 2, "of two pages, without the pods that wait")
	assert.True(t, expired)
}
